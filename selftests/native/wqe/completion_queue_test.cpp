// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A completion queue in plain memory.
#include <cstring>
#include <gtest/gtest.h>
#include <tally/completion_queue.hpp>
#include <vector>

using namespace tally;

namespace {

// The device's side of a queue.
struct queue_in_memory {
	static constexpr std::uint32_t count = 4;

	std::uint32_t size;
	std::vector<std::uint64_t> entries; // for their alignment
	__be32 records[2]{};
	std::uint32_t produced = 0;
	completion_queue cq;

	explicit queue_in_memory(std::uint32_t entry_size)
		: size(entry_size), entries(std::size_t{count} * size / 8), cq(parts())
	{
		for (std::uint32_t i = 0; i < count; i++)
			entry(i)->op_own = MLX5_CQE_INVALID << 4 | 1;
	}
	mlx5dv_cq parts()
	{
		mlx5dv_cq p{};
		p.buf = entries.data();
		p.dbrec = records;
		p.cqe_cnt = count;
		p.cqe_size = size;
		return p;
	}
	mlx5_cqe64 *entry(std::uint32_t n)
	{
		auto *end = reinterpret_cast<std::uint8_t *>(entries.data()) + (n % count + 1) * std::size_t{size};
		return reinterpret_cast<mlx5_cqe64 *>(end - sizeof(mlx5_cqe64));
	}
	mlx5_cqe64 &complete(std::uint8_t kind, std::uint16_t index, std::uint8_t opcode)
	{
		mlx5_cqe64 &cqe = *entry(produced);
		std::memset(&cqe, 0, sizeof(cqe));
		cqe.sop_drop_qpn = htobe32(std::uint32_t{opcode} << 24 | 0x123456);
		cqe.wqe_counter = htobe16(index);
		cqe.byte_cnt = htobe32(4096);
		cqe.imm_inval_pkey = htobe32(77);
		cqe.op_own = static_cast<std::uint8_t>(kind << 4 | !!(produced & count));
		produced++;
		return cqe;
	}
};

class completion_queue_of : public testing::TestWithParam<std::uint32_t> {};

INSTANTIATE_TEST_SUITE_P(entry_sizes, completion_queue_of, testing::Values(64u, 128u));

TEST_P(completion_queue_of, it_gives_each_completion_once_and_in_order_through_its_end)
{
	queue_in_memory q(GetParam());

	EXPECT_FALSE(q.cq.poll());
	for (std::uint16_t i = 0; i < 30; i += 3) {
		for (std::uint16_t j = 0; j < 3; j++)
			q.complete(MLX5_CQE_REQ, i + j, MLX5_OPCODE_RDMA_READ);
		for (std::uint16_t j = 0; j < 3; j++) {
			const auto c = q.cq.poll();
			ASSERT_TRUE(c);
			EXPECT_TRUE(c->ok());
			EXPECT_EQ(c->index, i + j);
			EXPECT_EQ(c->qpn, 0x123456u);
			EXPECT_EQ(c->opcode, wqe::op_rdma_read);
			EXPECT_EQ(c->bytes, 4096u);
			EXPECT_EQ(be32toh(q.records[0]), i + j + 1u);
		}
		EXPECT_FALSE(q.cq.poll());
	}
}

TEST_P(completion_queue_of, an_error_says_what_went_wrong)
{
	queue_in_memory q(GetParam());

	auto &error = reinterpret_cast<mlx5_err_cqe &>(q.complete(MLX5_CQE_REQ_ERR, 9, MLX5_OPCODE_SEND));
	error.syndrome = MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR;
	error.vendor_err_synd = 0x88;
	const auto c = q.cq.poll();
	ASSERT_TRUE(c);
	EXPECT_FALSE(c->ok());
	EXPECT_EQ(c->syndrome, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	EXPECT_EQ(c->vendor_error, 0x88);
	EXPECT_EQ(c->index, 9);
	EXPECT_EQ(c->qpn, 0x123456u);
}

TEST_P(completion_queue_of, a_receive_brings_its_immediate_data)
{
	queue_in_memory q(GetParam());

	q.complete(MLX5_CQE_RESP_SEND_IMM, 1, 0);
	const auto c = q.cq.poll();
	ASSERT_TRUE(c);
	EXPECT_EQ(c->kind, MLX5_CQE_RESP_SEND_IMM);
	EXPECT_EQ(c->imm, 77u);
}

} // namespace
