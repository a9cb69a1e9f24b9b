// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory, event queues and doorbell pages that commands name by number.
#include "devx.hpp"
#include "ktap.hpp"
#include "udmabuf.hpp"

#include <cerrno>
#include <set>

using namespace rdma;

namespace {

int errno_of_reg(const Context &c, void *addr, size_t size, uint32_t access)
{
	mlx5dv_devx_umem *u = mlx5dv_devx_umem_reg(c.get(), addr, size, access);
	if (!u)
		return errno;
	must(mlx5dv_devx_umem_dereg(u), "dereg");
	return 0;
}

int errno_of_reg_ex(const Context &c, mlx5dv_devx_umem_in in)
{
	mlx5dv_devx_umem *u = mlx5dv_devx_umem_reg_ex(c.get(), &in);
	if (!u)
		return errno;
	must(mlx5dv_devx_umem_dereg(u), "dereg");
	return 0;
}

KTEST(devx_umem, "memory of any size at any address gets a number of its own")
{
	Context c;
	devx::Buffer m(3 << 20);
	std::set<uint32_t> ids;
	std::vector<mlx5dv_devx_umem *> umems;

	for (auto [off, size] : {std::pair<size_t, size_t>{0, 4096}, {8, 8}, {4095, 2}, {100, 2 << 20}, {0, 3 << 20}}) {
		mlx5dv_devx_umem *u = mlx5dv_devx_umem_reg(c.get(), m.data() + off, size, IBV_ACCESS_LOCAL_WRITE);
		ASSERT_NE(u, nullptr) << off;
		EXPECT_TRUE(ids.insert(u->umem_id).second);
		EXPECT_NE(u->umem_id, 0u);
		umems.push_back(u);
	}
	for (mlx5dv_devx_umem *u : umems)
		EXPECT_EQ(mlx5dv_devx_umem_dereg(u), 0);
}

KTEST(devx_umem, "what cannot be pinned, or is not said properly, is refused")
{
	Context c;
	devx::Buffer m(2 * 4096);
	auto *nowhere = reinterpret_cast<void *>(UINT64_C(0x10000));

	EXPECT_EQ(errno_of_reg(c, m.data(), 0, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	EXPECT_EQ(errno_of_reg(c, nowhere, 4096, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	EXPECT_NE(errno_of_reg(c, m.data(), SIZE_MAX - 100, IBV_ACCESS_LOCAL_WRITE), 0);
	EXPECT_NE(errno_of_reg(c, m.data(), size_t{1} << 40, IBV_ACCESS_LOCAL_WRITE), 0);
	EXPECT_NE(errno_of_reg(c, reinterpret_cast<void *>(UINTPTR_MAX - 10), 4096, 0), 0);
	EXPECT_EQ(errno_of_reg(c, m.data(), 4096, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
	EXPECT_EQ(errno_of_reg(c, m.data(), 4096, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	// Memory that the program itself may only read, for a device that only reads.
	must(mprotect(m.data(), m.size(), PROT_READ), "mprotect");
	EXPECT_EQ(errno_of_reg(c, m.data(), 4096, 0), 0);
	EXPECT_EQ(errno_of_reg(c, m.data(), 4096, IBV_ACCESS_LOCAL_WRITE), EFAULT);
}

KTEST(devx_umem, "page sizes to choose from must have one that the device can use")
{
	Context c;
	devx::Buffer m(2 << 20);
	mlx5dv_devx_umem_in in{};

	in.addr = m.data();
	in.size = m.size();
	in.access = IBV_ACCESS_LOCAL_WRITE;
	in.pgsz_bitmap = UINT64_MAX & ~UINT64_C(4095);
	EXPECT_EQ(errno_of_reg_ex(c, in), 0);
	in.pgsz_bitmap = 4096;
	EXPECT_EQ(errno_of_reg_ex(c, in), 0);
	in.pgsz_bitmap = 4095;
	EXPECT_EQ(errno_of_reg_ex(c, in), EINVAL);
	in.pgsz_bitmap = UINT64_C(1) << 40;
	EXPECT_EQ(errno_of_reg_ex(c, in), EINVAL);
}

KTEST(devx_umem, "a dma-buf that the CPU can map is memory like other memory; other files are none")
{
	NEED_UDMABUF;
	Context c;
	UDmabuf buf;
	mlx5dv_devx_umem_in in{};

	in.size = 8192;
	in.addr = reinterpret_cast<void *>(UINT64_C(4096));
	in.access = IBV_ACCESS_LOCAL_WRITE;
	in.pgsz_bitmap = 4096;
	in.comp_mask = MLX5DV_UMEM_MASK_DMABUF;
	in.dmabuf_fd = buf.fd;
	EXPECT_EQ(errno_of_reg_ex(c, in), 0);
	in.size = 1 << 20;
	EXPECT_EQ(errno_of_reg_ex(c, in), EINVAL);
	in.size = 4096;
	in.dmabuf_fd = 0;
	EXPECT_NE(errno_of_reg_ex(c, in), 0);
	in.dmabuf_fd = -1;
	EXPECT_NE(errno_of_reg_ex(c, in), 0);
}

KTEST(devx_umem, "a context closes over memory that its program has forgotten")
{
	devx::Buffer m(1 << 20);
	for (int i = 0; i < 3; i++) {
		Context c;
		for (int k = 0; k < 20; k++)
			ASSERT_NE(mlx5dv_devx_umem_reg(c.get(), m.data(), m.size(), 0), nullptr);
	}
}

KTEST(devx_eqn, "each completion vector has an event queue, and there are no others")
{
	Context c;
	std::set<uint32_t> eqns;
	uint32_t eqn = 0;

	for (int v = 0; v < c.get()->num_comp_vectors; v++) {
		must(mlx5dv_devx_query_eqn(c.get(), v, &eqn), "query_eqn");
		EXPECT_TRUE(eqns.insert(eqn).second);
		EXPECT_LT(eqn, 256u);
	}
	EXPECT_EQ(mlx5dv_devx_query_eqn(c.get(), c.get()->num_comp_vectors, &eqn), EINVAL);
	EXPECT_EQ(mlx5dv_devx_query_eqn(c.get(), UINT32_MAX, &eqn), EINVAL);
}

} // namespace
