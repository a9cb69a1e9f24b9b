// SPDX-License-Identifier: GPL-2.0-only
/* Decoding of store instructions. */
#include "store.h"

/* ---- x86-64 ---- */

/* Mandatory prefix of an SSE, VEX or EVEX opcode, as its "pp" field numbers it. */
enum { PP_NONE, PP_66, PP_F3, PP_F2 };

enum { ENC_LEGACY = 1, ENC_VEX = 2, ENC_EVEX = 4, ENC_ANY = 7 };

/* Opcode maps: one-byte, 0f, 0f 38, 0f 3a. */
enum { MAP_1, MAP_0F, MAP_0F38, MAP_0F3A };

/* What is stored. */
enum {
	W_VECTOR = 1,	/* a vector register: 16 bytes, or what the vector length says */
	W_OPERAND,	/* 4 bytes, 8 with W */
	W_GPR,		/* the same from a general register, which is plainly the value */
	W_1,
	W_2,
	W_4,
	W_8,
	W_16,
	W_32,
	W_64,
};

struct vector_store {
	u8 map;
	u8 opcode;
	u8 pp;		/* mask of 1 << PP_ */
	u8 enc;		/* mask of ENC_ */
	u8 what;	/* W_ */
	u8 imm;		/* bytes of immediate */
};

#define PP(x) (1 << PP_##x)

static const struct vector_store vector_stores[] = {
	{ MAP_0F, 0x11, PP(NONE) | PP(66), ENC_ANY, W_VECTOR },		/* movups, movupd */
	{ MAP_0F, 0x11, PP(F3), ENC_ANY, W_4 },				/* movss */
	{ MAP_0F, 0x11, PP(F2), ENC_ANY, W_8 },				/* movsd */
	{ MAP_0F, 0x13, PP(NONE) | PP(66), ENC_ANY, W_8 },		/* movlps, movlpd */
	{ MAP_0F, 0x17, PP(NONE) | PP(66), ENC_ANY, W_8 },		/* movhps, movhpd */
	{ MAP_0F, 0x29, PP(NONE) | PP(66), ENC_ANY, W_VECTOR },		/* movaps, movapd */
	{ MAP_0F, 0x2b, PP(NONE) | PP(66), ENC_ANY, W_VECTOR },		/* movntps, movntpd */
	{ MAP_0F, 0x7e, PP(NONE), ENC_LEGACY, W_OPERAND },		/* movd, movq of mmx */
	{ MAP_0F, 0x7e, PP(66), ENC_ANY, W_OPERAND },			/* movd, movq */
	{ MAP_0F, 0x7f, PP(NONE), ENC_LEGACY, W_8 },			/* movq of mmx */
	{ MAP_0F, 0x7f, PP(66) | PP(F3), ENC_ANY, W_VECTOR },		/* movdqa, movdqu, vmovdqa64, ... */
	{ MAP_0F, 0x7f, PP(F2), ENC_EVEX, W_VECTOR },			/* vmovdqu8, vmovdqu16 */
	{ MAP_0F, 0xc3, PP(NONE), ENC_LEGACY, W_GPR },			/* movnti */
	{ MAP_0F, 0xd6, PP(66), ENC_ANY, W_8 },				/* movq */
	{ MAP_0F, 0xe7, PP(NONE), ENC_LEGACY, W_8 },			/* movntq */
	{ MAP_0F, 0xe7, PP(66), ENC_ANY, W_VECTOR },			/* movntdq */
	{ MAP_0F38, 0xf1, PP(NONE), ENC_LEGACY, W_OPERAND },		/* movbe */
	{ MAP_0F38, 0xf8, PP(66), ENC_LEGACY, W_64 },			/* movdir64b */
	{ MAP_0F38, 0xf9, PP(NONE), ENC_LEGACY, W_GPR },		/* movdiri */
	{ MAP_0F3A, 0x14, PP(66), ENC_ANY, W_1, 1 },			/* pextrb */
	{ MAP_0F3A, 0x15, PP(66), ENC_ANY, W_2, 1 },			/* pextrw */
	{ MAP_0F3A, 0x16, PP(66), ENC_ANY, W_OPERAND, 1 },		/* pextrd, pextrq */
	{ MAP_0F3A, 0x17, PP(66), ENC_ANY, W_4, 1 },			/* extractps */
	{ MAP_0F3A, 0x19, PP(66), ENC_VEX | ENC_EVEX, W_16, 1 },	/* vextractf128, vextractf32x4, ... */
	{ MAP_0F3A, 0x1b, PP(66), ENC_EVEX, W_32, 1 },			/* vextractf64x4, ... */
	{ MAP_0F3A, 0x39, PP(66), ENC_VEX | ENC_EVEX, W_16, 1 },	/* vextracti128, vextracti32x4, ... */
	{ MAP_0F3A, 0x3b, PP(66), ENC_EVEX, W_32, 1 },			/* vextracti64x4, ... */
};

/* A place in the instruction that never goes beyond its end. */
struct reader {
	const u8 *insn;
	size_t pos;
	size_t len;
	bool overrun;
};

static u8 next(struct reader *r)
{
	if (r->pos >= r->len) {
		r->overrun = true;
		return 0;
	}
	return r->insn[r->pos++];
}

static void skip(struct reader *r, size_t n)
{
	if (n > r->len - r->pos) {
		r->overrun = true;
		r->pos = r->len;
	} else {
		r->pos += n;
	}
}

/* Prefixes and opcode: everything that precedes the ModRM byte. */
struct opcode {
	u8 map;
	u8 opcode;
	u8 pp;
	u8 enc;
	bool w;
	bool addr32;
	bool reg_high;		/* fourth bit of ModRM.reg */
	u8 vector_bytes;
};

static u8 pp_of(u8 prefix)
{
	return prefix == 0xf3 ? PP_F3 : prefix == 0xf2 ? PP_F2 : PP_NONE;
}

static void read_legacy_opcode(struct reader *r, u8 first, struct opcode *op)
{
	op->enc = ENC_LEGACY;
	op->vector_bytes = 16;
	op->map = MAP_1;
	op->opcode = first;
	if (first != 0x0f)
		return;
	op->map = MAP_0F;
	op->opcode = next(r);
	if (op->opcode == 0x38 || op->opcode == 0x3a) {
		op->map = op->opcode == 0x38 ? MAP_0F38 : MAP_0F3A;
		op->opcode = next(r);
	}
}

static bool read_vex_opcode(struct reader *r, u8 first, struct opcode *op)
{
	u8 b = next(r);

	op->enc = ENC_VEX;
	op->map = MAP_0F;
	if (first == 0xc4) {
		op->map = b & 0x1f;
		if (op->map != MAP_0F && op->map != MAP_0F3A)
			return false;
		b = next(r);
		op->w = b & 0x80;
	}
	op->pp = b & 3;
	op->vector_bytes = b & 4 ? 32 : 16;
	op->opcode = next(r);
	return true;
}

static bool read_evex_opcode(struct reader *r, struct opcode *op)
{
	u8 p0 = next(r), p1 = next(r), p2 = next(r);

	op->enc = ENC_EVEX;
	op->map = p0 & 7;
	if ((p0 & 8) || !(p1 & 4) || (op->map != MAP_0F && op->map != MAP_0F3A))
		return false;
	/* With an opmask, bytes may be left out; zeroing, broadcast and a vector length of 3 do not store. */
	if ((p2 & 0x97) || (p2 & 0x60) == 0x60)
		return false;
	op->w = p1 & 0x80;
	op->pp = p1 & 3;
	op->vector_bytes = 16 << (p2 >> 5 & 3);
	op->opcode = next(r);
	return true;
}

/* Prefixes, then opcode; false if no store begins so. */
static bool read_opcode(struct reader *r, struct opcode *op)
{
	bool opsize = false;
	u8 rep = 0, rex = 0, b;

	for (;;) {
		b = next(r);
		switch (b) {
		case 0x66:
			opsize = true;
			continue;
		case 0xf2:
		case 0xf3:
			rep = b;
			continue;
		case 0x67:
			op->addr32 = true;
			continue;
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0x64:
		case 0x65:
			continue;
		}
		break;
	}
	if ((b & 0xf0) == 0x40) {
		rex = b;
		b = next(r);
	}
	if (b == 0xc4 || b == 0xc5 || b == 0x62) {
		/* These fault with any of the prefixes that are part of an opcode. */
		if (rex || rep || opsize)
			return false;
		return b == 0x62 ? read_evex_opcode(r, op) : read_vex_opcode(r, b, op);
	}
	op->w = rex & 8;
	op->reg_high = rex & 4;
	/* An F2 or F3 takes precedence over 66 where both could be part of the opcode. */
	op->pp = rep ? pp_of(rep) : opsize ? PP_66 : PP_NONE;
	read_legacy_opcode(r, b, op);
	return true;
}

/* ModRM, SIB and displacement of a memory operand; false if it is a register. */
static bool read_memory_operand(struct reader *r, u8 *reg)
{
	u8 modrm = next(r), mod = modrm >> 6, rm = modrm & 7;

	*reg = modrm >> 3 & 7;
	if (mod == 3)
		return false;
	if (rm == 4) {
		u8 sib = next(r);

		if (mod == 0 && (sib & 7) == 5)
			skip(r, 4);
	} else if (mod == 0 && rm == 5) {
		skip(r, 4);
	}
	if (mod == 1)
		skip(r, 1);
	else if (mod == 2)
		skip(r, 4);
	return true;
}

static bool decode_mov(struct reader *r, const struct opcode *op, struct tally_store *out)
{
	bool byte = !(op->opcode & 1);
	u8 reg;

	/* With F2 and F3 these are the ends of elided locks. */
	if (op->pp == PP_F2 || op->pp == PP_F3)
		return false;
	out->width = byte ? 1 : op->w ? 8 : op->pp == PP_66 ? 2 : 4;
	switch (op->opcode) {
	case 0x88:
	case 0x89:
		if (!read_memory_operand(r, &reg))
			return false;
		if (!byte)
			out->reg = reg | (op->reg_high ? 8 : 0);
		return true;
	case 0xa2:
	case 0xa3:
		skip(r, op->addr32 ? 4 : 8);
		out->reg = 0;
		return true;
	case 0xc6:
	case 0xc7:
		if (!read_memory_operand(r, &reg) || reg != 0)
			return false;
		skip(r, out->width == 8 ? 4 : out->width);
		return true;
	}
	return false;
}

static u8 width_of(const struct opcode *op, u8 what)
{
	switch (what) {
	case W_VECTOR:
		return op->vector_bytes;
	case W_OPERAND:
	case W_GPR:
		return op->w ? 8 : 4;
	default:
		return 1 << (what - W_1);
	}
}

static bool decode_vector(struct reader *r, const struct opcode *op, struct tally_store *out)
{
	const struct vector_store *v;
	size_t i;
	u8 reg;

	for (i = 0; i < sizeof(vector_stores) / sizeof(vector_stores[0]); i++) {
		v = &vector_stores[i];
		if (v->map == op->map && v->opcode == op->opcode && v->pp & 1 << op->pp && v->enc & op->enc)
			goto found;
	}
	return false;
found:
	if (!read_memory_operand(r, &reg))
		return false;
	skip(r, v->imm);
	out->width = width_of(op, v->what);
	if (v->what == W_GPR)
		out->reg = reg | (op->reg_high ? 8 : 0);
	return true;
}

bool tally_decode_store_x86(const u8 *insn, size_t len, struct tally_store *out)
{
	struct reader r = { .insn = insn, .len = len < TALLY_STORE_MAX_LEN ? len : TALLY_STORE_MAX_LEN };
	struct opcode op = { 0 };

	out->reg = TALLY_STORE_NO_REG;
	if (!read_opcode(&r, &op))
		return false;
	if (!(op.map == MAP_1 ? decode_mov(&r, &op, out) : decode_vector(&r, &op, out)))
		return false;
	out->len = r.pos;
	return !r.overrun;
}

/* ---- A64 ---- */

/*
 * One class of store encodings: the bits that tell it, and how wide its stores are.
 */
struct a64_store {
	u32 mask;
	u32 value;
	u8 what;
};

enum {
	A64_INT = 1,	/* size in 31:30, general register */
	A64_FP,		/* size in 31:30 and 23 */
	A64_INT_PAIR,	/* two of 4 or 8 bytes */
	A64_FP_PAIR,
	A64_ST1_1,	/* one to four vectors of 8 or 16 bytes */
	A64_ST1_2,
	A64_ST1_3,
	A64_ST1_4,
	A64_64,
};

static const struct a64_store a64_stores[] = {
	{ 0x3fc00000, 0x39000000, A64_INT },		/* str, unsigned offset */
	{ 0x3fe00c00, 0x38000000, A64_INT },		/* stur */
	{ 0x3fe00c00, 0x38200800, A64_INT },		/* str, register offset */
	{ 0x3ffffc00, 0x089ffc00, A64_INT },		/* stlr */
	{ 0x3f400000, 0x3d000000, A64_FP },		/* the same of a vector register */
	{ 0x3f600c00, 0x3c000000, A64_FP },
	{ 0x3f600c00, 0x3c200800, A64_FP },
	{ 0x7fc00000, 0x28000000, A64_INT_PAIR },	/* stnp */
	{ 0x7fc00000, 0x29000000, A64_INT_PAIR },	/* stp, offset */
	{ 0x3fc00000, 0x2c000000, A64_FP_PAIR },
	{ 0x3fc00000, 0x2d000000, A64_FP_PAIR },
	{ 0xbffff000, 0x0c007000, A64_ST1_1 },		/* st1 of one register, no offset */
	{ 0xbffff000, 0x0c00a000, A64_ST1_2 },
	{ 0xbffff000, 0x0c006000, A64_ST1_3 },
	{ 0xbffff000, 0x0c002000, A64_ST1_4 },
	{ 0xbffff000, 0x0c008000, A64_ST1_2 },		/* st2 */
	{ 0xbffff000, 0x0c004000, A64_ST1_3 },		/* st3 */
	{ 0xbffff000, 0x0c000000, A64_ST1_4 },		/* st4 */
	{ 0xfffffc00, 0xf83f9000, A64_64 },		/* st64b */
};

static u8 a64_width(u32 insn, u8 what)
{
	u8 size = insn >> 30;

	switch (what) {
	case A64_INT:
		return 1 << size;
	case A64_FP:
		if (insn & 1 << 23)
			return size == 0 ? 16 : 0;
		return 1 << size;
	case A64_INT_PAIR:
		return 8 << (size >> 1);
	case A64_FP_PAIR:
		return size == 3 ? 0 : 8 << size;
	case A64_64:
		return 64;
	default:
		return (what - A64_ST1_1 + 1) << (insn & 1 << 30 ? 4 : 3);
	}
}

bool tally_decode_store_arm64(const u8 *insn, size_t len, struct tally_store *out)
{
	u32 word;
	size_t i;

	if (len < 4)
		return false;
	word = insn[0] | insn[1] << 8 | insn[2] << 16 | (u32)insn[3] << 24;
	for (i = 0; i < sizeof(a64_stores) / sizeof(a64_stores[0]); i++) {
		const struct a64_store *s = &a64_stores[i];

		if ((word & s->mask) != s->value)
			continue;
		out->len = 4;
		out->width = a64_width(word, s->what);
		out->reg = TALLY_STORE_NO_REG;
		/* Number 31 is zero, not a register. */
		if (s->what == A64_INT && (word & 31) != 31)
			out->reg = word & 31;
		return out->width != 0;
	}
	return false;
}
