// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Objects whose creation fails at its very end, when the program is told of it: commands of other threads that have
// guessed their numbers get nothing, and the creation is undone.
#include "devx_queues.hpp"
#include "ktap.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

using namespace rdma;
using devx::Mailbox;

namespace {

// Memory where the kernel's answer waits and then fails; where there is no userfaultfd(2), it fails at once.
class Pitfall {
      public:
	Pitfall() : page_(4096), fd_(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)))
	{
		uffdio_api api{};
		uffdio_register reg{};

		api.api = UFFD_API;
		reg.range = {reinterpret_cast<uint64_t>(page_.data()), page_.size()};
		reg.mode = UFFDIO_REGISTER_MODE_MISSING;
		if (fd_ < 0)
			must(mprotect(page_.data(), page_.size(), PROT_NONE), "mprotect");
		else if (ioctl(fd_, UFFDIO_API, &api) || ioctl(fd_, UFFDIO_REGISTER, &reg))
			fail("userfaultfd");
	}
	~Pitfall() { open(); }
	void *data() const { return page_.data(); }
	bool waits() const { return fd_ >= 0; }
	// Somebody is waiting there.
	bool taken() const
	{
		pollfd p{fd_, POLLIN, 0};
		return ::poll(&p, 1, 0) == 1;
	}
	void open()
	{
		if (fd_ < 0)
			return;
		// What it waits for is gone when it looks again.
		must(mprotect(page_.data(), page_.size(), PROT_NONE), "mprotect");
		close(fd_);
		fd_ = -1;
	}

      private:
	devx::Buffer page_;
	int fd_;
};

// A command of the ioctl ABI, attribute by attribute.
class Command {
      public:
	Command(unsigned object, unsigned method)
	    : object_(static_cast<uint16_t>(object)), method_(static_cast<uint16_t>(method))
	{
	}
	template <class T> Command &in(unsigned id, const T &value)
	{
		ib_uverbs_attr &a = add(id, sizeof(value));
		if (sizeof(value) > sizeof(a.data))
			a.data = reinterpret_cast<uintptr_t>(&value);
		else
			std::memcpy(&a.data, &value, sizeof(value));
		return *this;
	}
	Command &out(unsigned id, void *p, size_t len)
	{
		add(id, len).data = reinterpret_cast<uintptr_t>(p);
		return *this;
	}
	Command &handle(unsigned id, uint32_t value = 0)
	{
		add(id, 0).data = value;
		return *this;
	}
	// 0 or an errno.
	int run(const Context &c) const
	{
		std::vector<uint64_t> buf((sizeof(ib_uverbs_ioctl_hdr) + attrs_.size() * sizeof(ib_uverbs_attr)) / 8);
		ib_uverbs_ioctl_hdr hdr{};

		hdr.length = static_cast<uint16_t>(buf.size() * 8);
		hdr.object_id = object_;
		hdr.method_id = method_;
		hdr.num_attrs = static_cast<uint16_t>(attrs_.size());
		hdr.driver_id = RDMA_DRIVER_MLX5;
		std::memcpy(buf.data(), &hdr, sizeof(hdr));
		std::memcpy(buf.data() + sizeof(hdr) / 8, attrs_.data(), attrs_.size() * sizeof(ib_uverbs_attr));
		return ioctl(c.get()->cmd_fd, RDMA_VERBS_IOCTL, buf.data()) ? errno : 0;
	}

      private:
	ib_uverbs_attr &add(unsigned id, size_t len)
	{
		ib_uverbs_attr a{};
		a.attr_id = static_cast<uint16_t>(id);
		a.len = static_cast<uint16_t>(len);
		a.flags = UVERBS_ATTR_F_MANDATORY;
		attrs_.push_back(a);
		return attrs_.back();
	}
	uint16_t object_, method_;
	std::vector<ib_uverbs_attr> attrs_;
};

// Runs what @create makes of the memory for the object's number and of the pitfall, which takes another answer; names
// the number to a command meanwhile, and afterwards.
template <class Create, class Name> void make_and_name(const Context &c, Create create, Name name)
{
	for (int i = 0; i < 10; i++) {
		volatile uint32_t number[2]{};
		std::atomic<bool> done = false;
		Pitfall pit;
		const Command cmd = create(const_cast<uint32_t *>(number), pit.data());
		int err = 0;
		std::thread maker([&] {
			err = cmd.run(c);
			done = true;
		});

		// Without a pitfall that makes it wait, it is a race.
		while (!(pit.waits() ? pit.taken() : number[0]) && !done)
			;
		const int meanwhile = name(number[0]);
		pit.open();
		maker.join();
		EXPECT_EQ(err, EFAULT);
		EXPECT_NE(number[0], 0u);
		EXPECT_EQ(meanwhile, devx::BAD_RES);
		EXPECT_EQ(name(number[0]), devx::BAD_RES);
	}
}

KTEST(devx_unfinished, "a CQ that the program is not told of is not there for a queue pair made by a command")
{
	Context c;
	devx::Node n(c);
	devx::Buffer buf(8192);
	mlx5_ib_create_cq req{};

	req.buf_addr = reinterpret_cast<uintptr_t>(buf.data());
	req.db_addr = reinterpret_cast<uintptr_t>(buf.data() + 4096);
	req.cqe_size = 64;
	make_and_name(
		c,
		[&](uint32_t *number, void *pit) {
			return Command(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE)
				.handle(UVERBS_ATTR_CREATE_CQ_HANDLE)
				.in(UVERBS_ATTR_CREATE_CQ_CQE, uint32_t{63})
				.in(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, uint64_t{1})
				.in(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, uint32_t{0})
				.out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, pit, 4)
				.in(UVERBS_ATTR_UHW_IN, req)
				.out(UVERBS_ATTR_UHW_OUT, number, 8);
		},
		[&](uint32_t number) {
			Mailbox m = n.qp.request();
			DEVX_SET(create_qp_in, m.in.data(), qpc.cqn_snd, number);
			return devx::refused(c, m);
		});
}

KTEST(devx_unfinished, "a shared receive queue that the program is not told of is not there for a target of DC")
{
	Context c;
	devx::Base b(c);
	devx::Rmp rmp(c, b.pdn);
	devx::Dct dct(c, b.pdn, b.rcq, rmp);
	devx::Buffer buf(8192);
	mlx5_ib_create_srq req{};

	req.buf_addr = reinterpret_cast<uintptr_t>(buf.data());
	req.db_addr = reinterpret_cast<uintptr_t>(buf.data() + 4096);
	uint32_t max_sge = 0;
	make_and_name(
		c,
		[&](uint32_t *number, void *pit) {
			return Command(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE)
				.handle(UVERBS_ATTR_CREATE_SRQ_HANDLE)
				.handle(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, b.pd->handle)
				.in(UVERBS_ATTR_CREATE_SRQ_TYPE, uint64_t{IB_UVERBS_SRQT_BASIC})
				.in(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, uint64_t{1})
				.in(UVERBS_ATTR_CREATE_SRQ_MAX_WR, uint32_t{15})
				.in(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, uint32_t{1})
				.in(UVERBS_ATTR_CREATE_SRQ_LIMIT, uint32_t{0})
				.out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, pit, 4)
				.out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &max_sge, 4)
				.in(UVERBS_ATTR_UHW_IN, req)
				.out(UVERBS_ATTR_UHW_OUT, number, 8);
		},
		[&](uint32_t number) {
			Mailbox m = dct.request();
			DEVX_SET(dct_mailbox, m.in.data(), dctc.srqn, number);
			return devx::refused(c, m);
		});
}

KTEST(devx_unfinished, "a protection domain that the program is not told of is not there for a pool of receives")
{
	Context c;
	devx::Base b(c);
	devx::Rmp rmp(c, b.pdn);

	make_and_name(
		c,
		[&](uint32_t *number, void *pit) {
			return Command(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE)
				.in(UVERBS_ATTR_WRITE_CMD, uint64_t{IB_USER_VERBS_CMD_ALLOC_PD})
				.in(UVERBS_ATTR_CORE_IN, ib_uverbs_alloc_pd{})
				.out(UVERBS_ATTR_CORE_OUT, pit, sizeof(ib_uverbs_alloc_pd_resp))
				.out(UVERBS_ATTR_UHW_OUT, number, 4);
		},
		[&](uint32_t number) {
			Mailbox m = rmp.request();
			DEVX_SET(rmp_mailbox, m.in.data(), rmpc.wq.pd, number);
			return devx::refused(c, m);
		});
}

KTEST(devx_unfinished, "a doorbell page that the program is not told of is not there for a CQ made by a command")
{
	Context c;
	devx::Queue cq(c);
	uint64_t offset = 0;

	make_and_name(
		c,
		[&](uint32_t *number, void *pit) {
			return Command(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC)
				.handle(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE)
				.in(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, uint64_t{MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF})
				.out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, number, 4)
				.out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, pit, 4)
				.out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, &offset, 8);
		},
		[&](uint32_t number) {
			Mailbox m = cq.request();
			DEVX_SET(create_cq_in, m.in.data(), cqc.uar_page, number);
			return devx::refused(c, m);
		});
}

} // namespace
