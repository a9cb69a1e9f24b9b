// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Attaching counters to queue pairs.
#include "fake_kernel.hpp"

#include <gtest/gtest.h>

namespace {

using tally::test::fake_kernel;

class attach : public testing::Test {
    protected:
	attach()
	{
		ibv_comp_cntr_init_attr attr{};
		cntr = ibv_create_comp_cntr(kernel.context(), &attr);
	}
	~attach() override
	{
		kernel.destroy_qp(qp.handle);
		EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
	}

	int operator()(std::uint32_t op_mask, std::uint32_t comp_mask = 0)
	{
		ibv_qp_attach_comp_cntr_attr attr{comp_mask, op_mask};
		return ibv_qp_attach_comp_cntr(&qp, cntr, &attr);
	}

	fake_kernel kernel;
	ibv_comp_cntr *cntr;
	ibv_qp qp = kernel.make_qp(5);
};

TEST_F(attach, names_queue_pair_counter_and_operations)
{
	EXPECT_EQ((*this)(IBV_QP_ATTACH_COMP_CNTR_OP_SEND | IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE), 0);
	EXPECT_EQ(kernel.attachments.size(), 2u);
	EXPECT_EQ((kernel.attachments.at({5, IBV_QP_ATTACH_COMP_CNTR_OP_SEND})), cntr->handle);
	EXPECT_EQ((kernel.attachments.at({5, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE})), cntr->handle);
}

TEST_F(attach, masks_are_checked)
{
	EXPECT_EQ((*this)(0), EINVAL);
	EXPECT_EQ((*this)(IBV_QP_ATTACH_COMP_CNTR_OP_SEND, 1), EINVAL);
	EXPECT_EQ(kernel.calls(tally::test::qp_object, UVERBS_METHOD_QP_ATTACH_COMP_CNTR), 0u);
}

TEST_F(attach, an_operation_the_device_cannot_count_is_ENOTSUP)
{
	EXPECT_EQ((*this)(std::uint32_t{IBV_QP_ATTACH_COMP_CNTR_OP_SEND} | TALLY_QP_ATTACH_COMP_CNTR_OP_ATOMIC),
		  ENOTSUP);
	EXPECT_TRUE(kernel.attachments.empty());
}

TEST_F(attach, an_operation_that_has_a_counter_is_EBUSY)
{
	EXPECT_EQ((*this)(IBV_QP_ATTACH_COMP_CNTR_OP_SEND), 0);
	EXPECT_EQ((*this)(IBV_QP_ATTACH_COMP_CNTR_OP_SEND | IBV_QP_ATTACH_COMP_CNTR_OP_RECV), EBUSY);
	EXPECT_EQ(kernel.attachments.size(), 1u);
}

TEST_F(attach, a_queue_pair_beyond_INIT_is_EINVAL)
{
	kernel.busy_qps.insert(5);
	EXPECT_EQ((*this)(IBV_QP_ATTACH_COMP_CNTR_OP_SEND), EINVAL);
}

TEST_F(attach, a_queue_pair_of_another_context_is_EINVAL)
{
	ibv_context other{};
	qp.context = &other;
	EXPECT_EQ((*this)(IBV_QP_ATTACH_COMP_CNTR_OP_SEND), EINVAL);
	EXPECT_EQ(kernel.calls(tally::test::qp_object, UVERBS_METHOD_QP_ATTACH_COMP_CNTR), 0u);
}

} // namespace
