// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Objects made by commands of the device's own: what is common to all kinds of them.
#include "devx.hpp"
#include "ktap.hpp"

using namespace rdma;
using devx::Mailbox;

namespace {

int errno_of_create(const Context &c, Mailbox &m)
{
	if (devx::Obj obj = devx::try_create(c, m))
		return 0;
	return errno;
}

KTEST(devx_objects, "a protection domain has a number that no other has, also among those of verbs")
{
	Context c;
	uint32_t a = 0, b = 0;
	devx::Obj first = devx::alloc_pd(c, &a), second = devx::alloc_pd(c, &b);
	Pd verbs = alloc_pd(c);
	mlx5dv_pd dv{};
	mlx5dv_obj obj{};
	obj.pd = {verbs.get(), &dv};

	must(mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD), "mlx5dv_init_obj");
	EXPECT_NE(a, 0u);
	EXPECT_NE(a, b);
	EXPECT_NE(dv.pdn, a);
	EXPECT_NE(dv.pdn, b);
	EXPECT_EQ(devx::destroy(first), 0);
	EXPECT_EQ(devx::destroy(second), 0);
}

KTEST(devx_objects, "a command that the device has not got makes nothing, and says so in its mailbox")
{
	Context c;
	for (unsigned opcode : {0x0u, 0x816u, 0xffffu}) {
		Mailbox m(static_cast<devx::Opcode>(opcode), 64);
		EXPECT_EQ(devx::refused(c, m), devx::BAD_OP) << opcode;
	}
	// Commands that make no object do not become ones of that kind.
	Mailbox caps(devx::QUERY_HCA_CAP, 16, 4112);
	EXPECT_EQ(devx::refused(c, caps), devx::BAD_OP);
	Mailbox dealloc(devx::DEALLOC_PD, 16);
	EXPECT_EQ(devx::refused(c, dealloc), devx::BAD_OP);
}

KTEST(devx_objects, "mailboxes without a header, or of a size that no command has, are refused")
{
	Context c;
	Mailbox no_input(devx::ALLOC_PD, 12);
	EXPECT_NE(errno_of_create(c, no_input), 0);
	Mailbox no_output(devx::ALLOC_PD, 16, 12);
	EXPECT_NE(errno_of_create(c, no_output), 0);
	Mailbox large(devx::ALLOC_PD, 16, 32768);
	EXPECT_EQ(errno_of_create(c, large), EINVAL);
	Mailbox tunnel(devx::ALLOC_PD, 16);
	DEVX_SET(cmd_in, tunnel.in.data(), vhca_tunnel_id, 1);
	EXPECT_EQ(errno_of_create(c, tunnel), EINVAL);
}

KTEST(devx_objects, "a command must name the object that it is given the handle of")
{
	Context c;
	uint32_t pdn = 0;
	devx::Obj pd = devx::alloc_pd(c, &pdn);
	auto err = [&](devx::Opcode op, bool modify) {
		Mailbox m(op, 464, 16);
		m.names(pdn);
		return modify ? mlx5dv_devx_obj_modify(pd.get(), m.in.data(), m.in_len(), m.out.data(), m.out_len())
			      : mlx5dv_devx_obj_query(pd.get(), m.in.data(), m.in_len(), m.out.data(), m.out_len());
	};
	EXPECT_EQ(err(devx::INIT2INIT_QP, true), EINVAL);
	EXPECT_EQ(err(devx::INIT2INIT_QP, false), EINVAL);
	EXPECT_EQ(err(devx::ALLOC_PD, true), EREMOTEIO);
	EXPECT_EQ(err(devx::ALLOC_PD, false), EREMOTEIO);
}

KTEST(devx_objects, "a context closes over objects that its program has forgotten")
{
	for (int i = 0; i < 3; i++) {
		Context c;
		uint32_t pdn = 0;
		for (int k = 0; k < 100; k++)
			(void)devx::alloc_pd(c, &pdn).release();
	}
	Context c;
	uint32_t pdn = 0;
	devx::Obj pd = devx::alloc_pd(c, &pdn);
	EXPECT_NE(pdn, 0u);
}

} // namespace
