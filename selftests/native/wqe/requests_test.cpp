// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Every request, byte by byte against one that is put together from the structs of <infiniband/mlx5dv.h>.
#include <array>
#include <cstring>
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <numeric>
#include <ostream>
#include <tally/wqe.hpp>
#include <vector>

using namespace tally::wqe;

namespace {

constexpr std::uint32_t qpn = 0xabcdef;
constexpr std::uint16_t index_of_first = 0xfffe;

using bytes = std::vector<std::uint8_t>;

// A WQE as libmlx5's structs spell it.
class expected {
    public:
	explicit expected(std::uint8_t opcode, std::uint8_t opmod = 0) : bytes_(16)
	{
		ctrl_.opmod_idx_opcode = htobe32(std::uint32_t{opmod} << 24 | index_of_first << 8 | opcode);
	}
	expected &flags(std::uint8_t value) { return ctrl_.fm_ce_se = value, *this; }
	expected &imm(std::uint32_t value) { return ctrl_.imm = htobe32(value), *this; }
	expected &stream(std::uint16_t value) { return ctrl_.dci_stream_channel_id = htobe16(value), *this; }
	template <class Segment> expected &add(const Segment &segment, std::size_t size = sizeof(Segment))
	{
		const auto *from = reinterpret_cast<const std::uint8_t *>(&segment);
		bytes_.insert(bytes_.end(), from, from + size);
		return *this;
	}
	expected &remote(std::uint64_t addr, std::uint32_t rkey)
	{
		return add(mlx5_wqe_raddr_seg{htobe64(addr), htobe32(rkey), 0});
	}
	expected &data(std::uint64_t addr, std::uint32_t length, std::uint32_t lkey)
	{
		return add(mlx5_wqe_data_seg{htobe32(length), htobe32(lkey), htobe64(addr)});
	}
	expected &inlined(const bytes &data)
	{
		add(mlx5_wqe_inl_data_seg{htobe32(MLX5_INLINE_SEG | static_cast<std::uint32_t>(data.size()))});
		bytes_.insert(bytes_.end(), data.begin(), data.end());
		return pad(16);
	}
	expected &pad(std::size_t to)
	{
		bytes_.resize((bytes_.size() + to - 1) / to * to);
		return *this;
	}
	bytes whole()
	{
		ctrl_.qpn_ds = htobe32(qpn << 8 | static_cast<std::uint32_t>(bytes_.size() / 16));
		std::memcpy(bytes_.data(), &ctrl_, sizeof(ctrl_));
		return bytes_;
	}

    private:
	mlx5_wqe_ctrl_seg ctrl_{};
	bytes bytes_;
};

// What a builder writes, into memory full of something else; and that it writes nothing more.
template <class Request> bytes built(const Request &request, std::uint8_t flags = 0)
{
	alignas(64) std::array<std::uint8_t, 1024 + 64> memory;

	memory.fill(0xa5);
	const std::uint32_t units = build(linear{memory.data()}, {.qpn = qpn, .index = index_of_first, .flags = flags},
					  request);
	EXPECT_LE(units, request.units());
	for (std::size_t i = units * 16; i < memory.size(); i++)
		if (memory[i] != 0xa5) {
			ADD_FAILURE() << "byte " << i << " behind the WQE was written";
			break;
		}
	return {memory.begin(), memory.begin() + units * 16};
}

// The same through the end of a ring, at each of its blocks.
template <class Request> void expect_the_same_in_a_ring(const Request &request, const bytes &wanted)
{
	constexpr std::uint32_t blocks = 32;
	alignas(64) std::array<std::uint8_t, blocks * 64> memory;

	for (std::uint32_t first = 0; first < blocks; first++) {
		memory.fill(0xa5);
		build(ring{memory.data(), blocks - 1, first + 7 * blocks}, {.qpn = qpn, .index = index_of_first},
		      request);
		for (std::size_t i = 0; i < memory.size(); i++) {
			const std::uint8_t is = memory[(first * 64 + i) % memory.size()];
			ASSERT_EQ(is, i < wanted.size() ? wanted[i] : 0xa5)
				<< "first block " << first << ", byte " << i;
		}
	}
}

template <class Request> void expect_wqe(const Request &request, expected wanted)
{
	EXPECT_EQ(built(request), wanted.whole());
	expect_the_same_in_a_ring(request, wanted.whole());
}

constexpr remote peer{0x1122334455667788, 0x99aabbcc};
constexpr data piece{0x0102030405060708, 0x10203040, 0x50607080};
constexpr std::array<data, 5> five{{{1, 2, 3}, {4, 5, 6}, {7, 0, 9}, {10, 11, 12}, {13, 14, 15}}};

expected with_five(expected e)
{
	return e.data(1, 2, 3).data(4, 5, 6).data(10, 11, 12).data(13, 14, 15);
}

bytes counting(std::size_t size)
{
	bytes b(size);
	std::iota(b.begin(), b.end(), std::uint8_t{1});
	return b;
}

TEST(request, nop)
{
	expect_wqe(nop{}, expected(MLX5_OPCODE_NOP));
}

TEST(request, send_in_all_its_forms)
{
	const pieces list{five.data(), 5};

	expect_wqe(send{piece}, expected(MLX5_OPCODE_SEND).data(piece.addr, piece.length, piece.lkey));
	expect_wqe(send{nothing{}}, expected(MLX5_OPCODE_SEND));
	expect_wqe(send{list}, with_five(expected(MLX5_OPCODE_SEND)));
	expect_wqe(send_imm{0x01020304, list}, with_five(expected(MLX5_OPCODE_SEND_IMM).imm(0x01020304)));
	expect_wqe(send_inval{0x01020304, list}, with_five(expected(MLX5_OPCODE_SEND_INVAL).imm(0x01020304)));
}

TEST(request, more_pieces_than_a_wqe_holds_are_refused)
{
	const std::vector<data> many(62, piece);

	EXPECT_EQ(built(send{pieces{many.data(), 62}}).size(), 63 * 16u);
	for (std::uint32_t count : {63u, 64u, UINT32_MAX - 1, UINT32_MAX})
		EXPECT_EQ(built(send{pieces{many.data(), count}}), bytes{});
	EXPECT_EQ(built(rdma_write{peer, pieces{many.data(), 62}}), bytes{});
}

TEST(request, a_piece_without_length_is_left_away)
{
	expect_wqe(send{data{1, 0, 2}}, expected(MLX5_OPCODE_SEND));
}

TEST(request, write_and_read)
{
	const pieces list{five.data(), 5};

	expect_wqe(rdma_write{peer, list}, with_five(expected(MLX5_OPCODE_RDMA_WRITE).remote(peer.addr, peer.rkey)));
	expect_wqe(rdma_write_imm{7, peer, piece}, expected(MLX5_OPCODE_RDMA_WRITE_IMM)
							   .imm(7)
							   .remote(peer.addr, peer.rkey)
							   .data(piece.addr, piece.length, piece.lkey));
	expect_wqe(rdma_read{peer, list}, with_five(expected(MLX5_OPCODE_RDMA_READ).remote(peer.addr, peer.rkey)));
}

TEST(request, atomics)
{
	expect_wqe(compare_swap{peer, 3, 4, {5, 8, 6}}, expected(MLX5_OPCODE_ATOMIC_CS)
								.remote(peer.addr, peer.rkey)
								.add(mlx5_wqe_atomic_seg{htobe64(4), htobe64(3)})
								.data(5, 8, 6));
	expect_wqe(fetch_add{peer, 3, {5, 8, 6}}, expected(MLX5_OPCODE_ATOMIC_FA)
							  .remote(peer.addr, peer.rkey)
							  .add(mlx5_wqe_atomic_seg{htobe64(3), 0})
							  .data(5, 8, 6));
}

TEST(request, inline_data_of_every_length)
{
	for (std::size_t length = 1; length <= 200; length++) {
		SCOPED_TRACE(length);
		const bytes data = counting(length);
		const inline_bytes in{data.data(), static_cast<std::uint32_t>(length)};
		EXPECT_EQ(built(send{in}), expected(MLX5_OPCODE_SEND).inlined(data).whole());
		expect_wqe(rdma_write{peer, in},
			   expected(MLX5_OPCODE_RDMA_WRITE).remote(peer.addr, peer.rkey).inlined(data));
	}
	expect_wqe(send{inline_bytes{nullptr, 0}}, expected(MLX5_OPCODE_SEND));
}

TEST(request, inline_data_ends_with_the_longest_wqe)
{
	const bytes most = counting(62 * 16 - 4);

	EXPECT_EQ(built(send{inline_bytes{most.data(), 62 * 16 - 4}}),
		  expected(MLX5_OPCODE_SEND).inlined(most).whole());
	EXPECT_EQ(built(send{inline_bytes{most.data(), 62 * 16 - 3}}), bytes{});
	EXPECT_EQ(built(send{inline_bytes{most.data(), UINT32_MAX}}), bytes{});
}

TEST(request, a_copy_says_its_source_before_its_destination)
{
	expect_wqe(copy({0x11, 0x22}, {0x33, 0x44}, 100, {0x55, 0x66}),
		   expected(MLX5_OPCODE_MMO, 1)
			   .add(std::array<std::uint32_t, 2>{0, htobe32(0x66)})
			   .add(htobe64(0x55))
			   .data(0x33, 100, 0x44)
			   .data(0x11, 100, 0x22));
}

TEST(request, the_longest_copy_says_zero_and_none_and_longer_ones_are_refused)
{
	const auto length_of = [](std::uint64_t length) {
		const bytes wqe = built(copy({1, 2}, {3, 4}, length, {5, 6}));
		return wqe.empty() ? -1 : static_cast<int>(wqe[32] << 24 | wqe[33] << 16 | wqe[34] << 8 | wqe[35]);
	};

	EXPECT_EQ(length_of(max_copy - 1), INT32_MAX);
	EXPECT_EQ(length_of(max_copy), 0);
	EXPECT_EQ(length_of(max_copy + 1), -1);
	EXPECT_EQ(length_of(0), -1);
}

// What stands in front of every layout.
expected umr(std::uint32_t mkey, std::uint8_t flags, std::uint8_t access, std::uint32_t units, std::uint64_t length)
{
	mlx5_wqe_umr_ctrl_seg ctrl{};
	mlx5_wqe_mkey_context_seg key{};

	ctrl.flags = flags;
	ctrl.klm_octowords = htobe16(static_cast<std::uint16_t>(units));
	ctrl.mkey_mask = htobe64(
		MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN | MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY | MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE |
		MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE | MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_READ |
		MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE | MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_ATOMIC);
	key.access_flags = access;
	key.qpn_mkey = htobe32(0xffffff00 | (mkey & 0xff));
	key.len = htobe64(length);
	return expected(MLX5_OPCODE_UMR).imm(mkey).add(ctrl).add(key);
}

TEST(request, a_list_is_padded_to_whole_blocks)
{
	const std::array<data, 5> big{
		{{1, 1u << 30, 2}, {3, 1u << 30, 4}, {5, 1u << 30, 6}, {7, 1u << 30, 8}, {9, 1, 10}}};

	for (std::uint32_t count = 1; count <= 5; count++) {
		const std::uint64_t length = count < 5 ? std::uint64_t{count} << 30 : (std::uint64_t{4} << 30) + 1;
		expected wanted = umr(0x12345678, MLX5_WQE_UMR_CTRL_FLAG_INLINE,
				      MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_WRITE |
					      MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_ATOMIC,
				      count < 5 ? 4 : 8, length);
		for (std::uint32_t i = 0; i < count; i++)
			wanted.data(big[i].addr, big[i].length, big[i].lkey);
		expect_wqe(register_list(0x12345678, local_write | remote_atomic, {big.data(), count}), wanted.pad(64));
	}
}

TEST(request, a_pattern_has_a_header_and_is_padded_to_whole_blocks)
{
	std::vector<stride> list;

	for (std::uint32_t count = 1; count <= 8; count++) {
		list.push_back({0x100 * count, 10 * count, count, 0x7000 + count});
		std::uint32_t sum = 0;
		for (const auto &s : list)
			sum += s.bytes;
		expected wanted = umr(0x12345678, MLX5_WQE_UMR_CTRL_FLAG_INLINE,
				      MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_READ |
					      MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_WRITE,
				      (count + 1 + 3) / 4 * 4, std::uint64_t{sum} * 1000000000);
		mlx5_wqe_umr_repeat_block_seg head{};
		head.byte_count = htobe32(sum);
		head.op = htobe32(0x400);
		head.repeat_count = htobe32(1000000000);
		head.num_ent = htobe16(static_cast<std::uint16_t>(count));
		wanted.add(head);
		for (const auto &s : list) {
			mlx5_wqe_umr_repeat_ent_seg entry{};
			entry.stride = htobe16(static_cast<std::uint16_t>(s.bytes + s.skip));
			entry.byte_count = htobe16(static_cast<std::uint16_t>(s.bytes));
			entry.memkey = htobe32(s.lkey);
			entry.va = htobe64(s.addr);
			wanted.add(entry);
		}
		expect_wqe(register_interleaved(0x12345678, remote_read | remote_write, 1000000000, list.data(), count),
			   wanted.pad(64));
	}
}

TEST(request, a_pattern_whose_numbers_have_no_room_is_refused)
{
	for (const stride &s : {stride{0, 1 << 16, 0, 1}, stride{0, 1, 0xffff, 1}, stride{0, UINT32_MAX, 1, 1}})
		EXPECT_EQ(built(register_interleaved(1, 0, 1, &s, 1)), bytes{});
	const stride most{0, 0xfffe, 1, 1};
	EXPECT_EQ(built(register_interleaved(1, 0, 1, &most, 1)).size(), 12 * 16u);
}

TEST(request, layouts_of_too_many_entries_are_refused)
{
	const std::vector<data> list(max_umr_pieces + 1, data{1, 2, 3});
	const std::vector<stride> strides(max_umr_strides + 1, stride{1, 2, 3, 4});

	EXPECT_EQ(built(register_list(1, 0, {list.data(), max_umr_pieces})).size(), 60 * 16u);
	EXPECT_EQ(built(register_list(1, 0, {list.data(), max_umr_pieces + 1})), bytes{});
	EXPECT_EQ(built(register_list(1, 0, {list.data(), UINT32_MAX})), bytes{});
	EXPECT_EQ(built(register_interleaved(1, 0, 1, strides.data(), max_umr_strides)).size(), 60 * 16u);
	EXPECT_EQ(built(register_interleaved(1, 0, 1, strides.data(), max_umr_strides + 1)), bytes{});
	EXPECT_EQ(built(register_interleaved(1, 0, 1, strides.data(), UINT32_MAX)), bytes{});
}

TEST(request, a_layout_in_memory_is_named_by_one_piece)
{
	expect_wqe(register_from_memory(0x12345678, local_write, 1 << 20, {0x1000, 4096, 0x77}),
		   umr(0x12345678, 0, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_WRITE, 256, 1 << 20)
			   .data(0x1000, 4096, 0x77));
	EXPECT_EQ(built(register_from_memory(1, 0, 1, {0x1000, 0, 1})), bytes{});
	EXPECT_EQ(built(register_from_memory(1, 0, 1, {0x1000, 80, 1})), bytes{});
	EXPECT_EQ(built(register_from_memory(1, 0, 1, {0x1000, (1 << 20) - 64, 1})).size(), 9 * 16u);
	EXPECT_EQ(built(register_from_memory(1, 0, 1, {0x1000, 1 << 20, 1})), bytes{});
}

TEST(request, local_invalidation_frees_the_mkey)
{
	mlx5_wqe_umr_ctrl_seg ctrl{};
	mlx5_wqe_mkey_context_seg key{};

	ctrl.flags = MLX5_WQE_UMR_CTRL_FLAG_INLINE | MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET |
		     MLX5_WQE_UMR_CTRL_FLAG_CHECK_QPN;
	ctrl.mkey_mask = htobe64(MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE | MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY |
				 MLX5_WQE_UMR_CTRL_MKEY_MASK_QPN);
	key.free = MLX5_WQE_MKEY_CONTEXT_FREE;
	key.qpn_mkey = htobe32(0xffffff00);
	expect_wqe(local_inval{0x12345678}, expected(MLX5_OPCODE_UMR).imm(0x12345678).add(ctrl).add(key));
}

// An address vector as an address handle has it.
mlx5_wqe_av handle()
{
	mlx5_wqe_av av;

	std::memset(&av, 0x3c, sizeof(av));
	av.dqp_dct = 0;
	av.key.qkey.reserved = 0;
	return av;
}

TEST(request, addresses_come_before_the_rest)
{
	mlx5_wqe_av av = handle();
	const auto *path = reinterpret_cast<const av_seg *>(&av);
	const data d{1, 2, 3};

	mlx5_wqe_av to_dc = handle();
	to_dc.key.dc_key = htobe64(0x1020304050607080);
	to_dc.dqp_dct = htobe32(0x123456 | MLX5_EXTENDED_UD_AV);
	expect_wqe(
		rdma_write(peer, d, dc{path, 0x123456, 0x1020304050607080, 0xbeef}),
		expected(MLX5_OPCODE_RDMA_WRITE).stream(0xbeef).add(to_dc).remote(peer.addr, peer.rkey).data(1, 2, 3));
	expect_wqe(send_imm(9, d, dc{path, 0x123456, 0x1020304050607080}),
		   expected(MLX5_OPCODE_SEND_IMM).imm(9).add(to_dc).data(1, 2, 3));
	expect_wqe(fetch_add(peer, 8, {1, 8, 3}, dc{path, 0x123456, 0x1020304050607080}),
		   expected(MLX5_OPCODE_ATOMIC_FA)
			   .add(to_dc)
			   .remote(peer.addr, peer.rkey)
			   .add(mlx5_wqe_atomic_seg{htobe64(8), 0})
			   .data(1, 8, 3));

	mlx5_wqe_av to_ud = handle();
	to_ud.key.qkey.qkey = htobe32(0x11111111);
	to_ud.dqp_dct = htobe32(0x123456 | MLX5_EXTENDED_UD_AV);
	expect_wqe(send(d, ud{path, 0x123456, 0x11111111}), expected(MLX5_OPCODE_SEND).add(to_ud).data(1, 2, 3));
	const bytes small = counting(30);
	expect_wqe(send(inline_bytes{small.data(), 30}, ud{path, 0x123456, 0x11111111}),
		   expected(MLX5_OPCODE_SEND).add(to_ud).inlined(small));

	const std::array<std::uint32_t, 4> to_xrc{htobe32(0x123456), 0, 0, 0};
	expect_wqe(rdma_read(peer, d, xrc{0x123456}),
		   expected(MLX5_OPCODE_RDMA_READ).add(to_xrc).remote(peer.addr, peer.rkey).data(1, 2, 3));
}

TEST(request, flags_are_those_of_the_device)
{
	EXPECT_EQ(built(nop{}, signaled | solicited | strong_fence),
		  expected(MLX5_OPCODE_NOP)
			  .flags(MLX5_WQE_CTRL_CQ_UPDATE | MLX5_WQE_CTRL_SOLICITED | MLX5_WQE_CTRL_FENCE)
			  .whole());
	EXPECT_EQ(built(nop{}, small_fence),
		  expected(MLX5_OPCODE_NOP).flags(MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE).whole());
}

TEST(request, a_wqe_of_the_callers_making_is_copied_but_for_its_index)
{
	for (std::uint32_t units : {1u, 4u, 5u, 63u}) {
		bytes wqe(units * 16);
		std::iota(wqe.begin(), wqe.end(), std::uint8_t{0x80});
		wqe[7] = static_cast<std::uint8_t>(0xc0 | units); // the upper bits do not count

		bytes wanted = wqe;
		wanted[1] = 0x12;
		wanted[2] = 0x34;
		alignas(64) std::array<std::uint8_t, 16 * 64> memory{};
		EXPECT_EQ(build_raw(ring{memory.data(), 15, 13}, 0x1234, wqe.data()), units);
		for (std::size_t i = 0; i < wanted.size(); i++)
			ASSERT_EQ(memory[(13 * 64 + i) % memory.size()], wanted[i]) << "byte " << i;
	}
	const ctrl_seg empty{};
	ctrl_seg place{};
	EXPECT_EQ(build_raw(linear{&place}, 0, &empty), 0u);
}

} // namespace
