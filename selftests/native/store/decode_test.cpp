// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The store decoder against the assembler, against random bytes, and against a processor.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iomanip>
#include <memory>
#include <random>
#include <span>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <stdbool.h>
#include <sys/mman.h>

extern "C" {
#include "../../../kernel/tally/store.h"
}

namespace {

// As written by the macro of stores_x86.S.
struct Record {
	const std::uint8_t *insn;
	const char *text;
	std::uint8_t length;
	std::uint8_t width; // 0: must be refused
	std::uint8_t reg;
	std::uint8_t zero[5];
};

extern "C" const Record x86_records[], x86_records_end[];

std::span<const Record> records()
{
	return {x86_records, x86_records_end};
}

// Exactly these bytes, so that ASan sees a read beyond them.
struct Exact {
	explicit Exact(std::span<const std::uint8_t> bytes) : size(bytes.size()), data(new std::uint8_t[size])
	{
		std::memcpy(data.get(), bytes.data(), size);
	}

	std::size_t size;
	std::unique_ptr<std::uint8_t[]> data;
};

std::string describe(const Record &r)
{
	std::ostringstream out;

	out << r.text << " (" << std::hex << std::setfill('0');
	for (unsigned i = 0; i < r.length; i++)
		out << std::setw(2) << unsigned(r.insn[i]) << (i + 1 < r.length ? " " : ")");
	return out.str();
}

TEST(StoreDecoder, KnowsLengthWidthAndRegisterOfEveryStoreTheAssemblerWrites)
{
	std::size_t stores = 0;

	for (const Record &r : records()) {
		if (!r.width)
			continue;
		Exact bytes({r.insn, r.length});
		tally_store out = {};

		ASSERT_TRUE(tally_decode_store_x86(bytes.data.get(), bytes.size, &out)) << describe(r);
		EXPECT_EQ(out.len, r.length) << describe(r);
		EXPECT_EQ(out.width, r.width) << describe(r);
		EXPECT_EQ(out.reg, r.reg) << describe(r);
		stores++;
	}
	EXPECT_GT(stores, 5000u);
}

TEST(StoreDecoder, RefusesEverythingThatDoesMoreThanStore)
{
	std::size_t others = 0;

	for (const Record &r : records()) {
		if (r.width)
			continue;
		Exact bytes({r.insn, r.length});
		tally_store out = {};

		EXPECT_FALSE(tally_decode_store_x86(bytes.data.get(), bytes.size, &out)) << describe(r);
		others++;
	}
	EXPECT_GT(others, 1000u);
}

TEST(StoreDecoder, RefusesAnInstructionThatIsCutOff)
{
	for (const Record &r : records()) {
		for (std::uint8_t size = 0; size < r.length; size++) {
			Exact bytes({r.insn, size});
			tally_store out = {};

			EXPECT_FALSE(tally_decode_store_x86(bytes.data.get(), size, &out)) << describe(r) << " cut at "
											  << unsigned(size);
		}
	}
}

TEST(StoreDecoder, IgnoresWhatFollowsTheInstruction)
{
	for (const Record &r : records()) {
		if (!r.width)
			continue;
		for (std::uint8_t filler : {0x00, 0x66, 0x89, 0xff}) {
			std::uint8_t bytes[32];
			tally_store out = {};

			std::memset(bytes, filler, sizeof(bytes));
			std::memcpy(bytes, r.insn, r.length);
			ASSERT_TRUE(tally_decode_store_x86(bytes, sizeof(bytes), &out)) << describe(r);
			EXPECT_EQ(out.len, r.length) << describe(r);
		}
	}
}

TEST(StoreDecoder, RefusesMoreThanFifteenBytes)
{
	std::uint8_t bytes[18];
	tally_store out = {};

	std::memset(bytes, 0x3e, sizeof(bytes));
	bytes[12] = 0x48, bytes[13] = 0x89, bytes[14] = 0x07; // mov [rdi], rax
	EXPECT_TRUE(tally_decode_store_x86(bytes, sizeof(bytes), &out));
	EXPECT_EQ(out.len, 15);
	bytes[12] = 0x3e, bytes[13] = 0x48, bytes[14] = 0x89, bytes[15] = 0x07;
	EXPECT_FALSE(tally_decode_store_x86(bytes, sizeof(bytes), &out));
}

TEST(StoreDecoder, NeverReadsBeyondRandomBytesNorClaimsMoreThanThereAre)
{
	std::mt19937_64 random(20240229);
	const std::uint8_t starts[] = {0x66, 0xf2, 0xf3, 0x67, 0x48, 0x4f, 0x0f, 0x62, 0xc4, 0xc5, 0x88,
				       0x89, 0xc6, 0xc7, 0xa2, 0xa3, 0xf0, 0x64, 0x2e};
	std::size_t decoded = 0;

	for (int i = 0; i < 2'000'000; i++) {
		std::uint8_t raw[20];
		std::size_t size = random() % (sizeof(raw) + 1), lead = random() % 5;

		for (std::uint8_t &b : raw)
			b = std::uint8_t(random());
		for (std::size_t k = 0; k < lead && k < size; k++)
			raw[k] = starts[random() % std::size(starts)];
		Exact bytes({raw, size});
		tally_store out = {};

		if (tally_decode_store_x86(bytes.data.get(), size, &out)) {
			ASSERT_GT(out.len, 1);
			ASSERT_LE(out.len, size);
			ASSERT_LE(out.len, TALLY_STORE_MAX_LEN);
			ASSERT_GT(out.width, 0);
			ASSERT_TRUE(out.reg < 16 || out.reg == TALLY_STORE_NO_REG);
			decoded++;
		}
		if (tally_decode_store_arm64(bytes.data.get(), size, &out)) {
			ASSERT_EQ(out.len, 4);
			ASSERT_LE(out.len, size);
			ASSERT_GT(out.width, 0);
			ASSERT_TRUE(out.reg < 31 || out.reg == TALLY_STORE_NO_REG);
		}
	}
	EXPECT_GT(decoded, 1000u);
}

struct A64 {
	std::uint32_t insn;
	const char *text;
	std::uint8_t width;
	std::uint8_t reg;
};

constexpr std::uint8_t none = TALLY_STORE_NO_REG;

const A64 a64[] = {
	{0xf9000020, "str x0, [x1]", 8, 0},
	{0xb9001045, "str w5, [x2, #16]", 4, 5},
	{0xf900007f, "str xzr, [x3]", 8, none},
	{0xf90007fe, "str x30, [sp, #8]", 8, 30},
	{0x39000041, "strb w1, [x2]", 1, 1},
	{0x79000441, "strh w1, [x2, #2]", 2, 1},
	{0xf81f8107, "stur x7, [x8, #-8]", 8, 7},
	{0xf82b7949, "str x9, [x10, x11, lsl #3]", 8, 9},
	{0xf82b4949, "str x9, [x10, w11, uxtw]", 8, 9},
	{0xc89ffca4, "stlr x4, [x5]", 8, 4},
	{0x889ffca4, "stlr w4, [x5]", 4, 4},
	{0x3d800020, "str q0, [x1]", 16, none},
	{0xfd000421, "str d1, [x1, #8]", 8, none},
	{0xbd000022, "str s2, [x1]", 4, none},
	{0x3d000023, "str b3, [x1]", 1, none},
	{0x3c9f0024, "stur q4, [x1, #-16]", 16, none},
	{0x3ca26825, "str q5, [x1, x2]", 16, none},
	{0xa9000440, "stp x0, x1, [x2]", 16, none},
	{0x29010440, "stp w0, w1, [x2, #8]", 8, none},
	{0xa8000440, "stnp x0, x1, [x2]", 16, none},
	{0xad000440, "stp q0, q1, [x2]", 32, none},
	{0x6d010440, "stp d0, d1, [x2, #16]", 16, none},
	{0x2d000440, "stp s0, s1, [x2]", 8, none},
	{0xac010440, "stnp q0, q1, [x2, #32]", 32, none},
	{0x4c007000, "st1 {v0.16b}, [x0]", 16, none},
	{0x0c007000, "st1 {v0.8b}, [x0]", 8, none},
	{0x4c00a000, "st1 {v0.16b, v1.16b}, [x0]", 32, none},
	{0x4c006000, "st1 {v0.16b - v2.16b}, [x0]", 48, none},
	{0x4c002000, "st1 {v0.16b - v3.16b}, [x0]", 64, none},
	{0x4c008c00, "st2 {v0.2d, v1.2d}, [x0]", 32, none},
	{0x4c004c00, "st3 {v0.2d - v2.2d}, [x0]", 48, none},
	{0x4c000000, "st4 {v0.16b - v3.16b}, [x0]", 64, none},
	{0xf83f91a0, "st64b x0, [x13]", 64, none},
	{0xf9400020, "ldr x0, [x1]", 0, none},
	{0xf8008420, "str x0, [x1], #8", 0, none},
	{0xf8008c20, "str x0, [x1, #8]!", 0, none},
	{0xa9810440, "stp x0, x1, [x2, #16]!", 0, none},
	{0xa8810440, "stp x0, x1, [x2], #16", 0, none},
	{0xa9400440, "ldp x0, x1, [x2]", 0, none},
	{0x4c9f7000, "st1 {v0.16b}, [x0], #16", 0, none},
	{0x4c407000, "ld1 {v0.16b}, [x0]", 0, none},
	{0xc8007c41, "stxr w0, x1, [x2]", 0, none},
	{0xc800fc41, "stlxr w0, x1, [x2]", 0, none},
	{0xf8200041, "ldadd x0, x1, [x2]", 0, none},
	{0xf8208041, "swp x0, x1, [x2]", 0, none},
	{0xc8a07c41, "cas x0, x1, [x2]", 0, none},
	{0xf9800000, "prfm pldl1keep, [x0]", 0, none},
	{0x8b020020, "add x0, x1, x2", 0, none},
	{0x3dc00020, "ldr q0, [x1]", 0, none},
	{0xd503201f, "nop", 0, none},
	{0xd50b7420, "dc zva, x0", 0, none},
	{0xf821b1a0, "st64bv x1, x0, [x13]", 0, none},
	{0xc8dffca4, "ldar x4, [x5]", 0, none},
	{0xf85f8107, "ldur x7, [x8, #-8]", 0, none},
	{0xa8400440, "ldnp x0, x1, [x2]", 0, none},
	{0xb9800020, "ldrsw x0, [x1]", 0, none},
};

TEST(StoreDecoder, KnowsA64Stores)
{
	for (const A64 &i : a64) {
		std::uint8_t bytes[4] = {std::uint8_t(i.insn), std::uint8_t(i.insn >> 8), std::uint8_t(i.insn >> 16),
					 std::uint8_t(i.insn >> 24)};
		tally_store out = {};

		EXPECT_FALSE(tally_decode_store_arm64(bytes, 3, &out)) << i.text;
		ASSERT_EQ(tally_decode_store_arm64(bytes, 4, &out), i.width != 0) << i.text;
		if (!i.width)
			continue;
		EXPECT_EQ(out.len, 4) << i.text;
		EXPECT_EQ(out.width, i.width) << i.text;
		EXPECT_EQ(out.reg, i.reg) << i.text;
	}
}

} // namespace
