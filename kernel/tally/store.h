/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a store instruction is: how long, how wide, from which register.
 *
 * Pure functions over bytes, so that they compile in user space as well.
 */
#ifndef TALLY_STORE_H
#define TALLY_STORE_H

#ifdef __KERNEL__
#include <linux/stddef.h>
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef uint8_t u8;
typedef uint32_t u32;
#endif

/* The longest instruction of any architecture here. */
#define TALLY_STORE_MAX_LEN 15

#define TALLY_STORE_NO_REG 0xff

/**
 * struct tally_store - a store instruction
 * @len: its length in bytes
 * @width: how many bytes it stores
 * @reg: number of the general register, in the instruction set's own numbering, whose lower @width bytes are
 *	what is stored; TALLY_STORE_NO_REG if it stores something else
 */
struct tally_store {
	u8 len;
	u8 width;
	u8 reg;
};

/**
 * tally_decode_store_x86 - decode a store of 64-bit mode
 * @insn: the instruction's first byte
 * @len: how many bytes may be read
 * @out: filled in on success
 *
 * Knows instructions that only store: skipping one leaves registers and flags as if it had run.  Everything
 * else (locked, read-modify-write, repeated and masked ones, loads) is refused.
 *
 * Return: whether the instruction is such a store and lies within @len bytes.
 */
bool tally_decode_store_x86(const u8 *insn, size_t len, struct tally_store *out);

/**
 * tally_decode_store_arm64 - the same for A64
 * @insn: the instruction's first byte
 * @len: how many bytes may be read
 * @out: filled in on success
 *
 * Stores that write their base register back are refused, too.
 *
 * Return: whether the instruction is such a store and lies within @len bytes.
 */
bool tally_decode_store_arm64(const u8 *insn, size_t len, struct tally_store *out);

/**
 * tally_decode_store - the same for the architecture this is compiled for
 * @insn: the instruction's first byte
 * @len: how many bytes may be read
 * @out: filled in on success
 *
 * Return: whether the instruction is such a store and lies within @len bytes; false on other architectures.
 */
static inline bool tally_decode_store(const u8 *insn, size_t len, struct tally_store *out)
{
#if defined(__x86_64__)
	return tally_decode_store_x86(insn, len, out);
#elif defined(__aarch64__)
	return tally_decode_store_arm64(insn, len, out);
#else
	return false;
#endif
}

#endif /* TALLY_STORE_H */
