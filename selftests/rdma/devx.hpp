// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Commands of the device's own (DEVX): layouts for DEVX_SET() and DEVX_GET(), and owned objects.
#pragma once

#include "verbs.hpp"

#include <infiniband/mlx5dv.h>

// One array element is one bit; names and numbers are the programmer's reference manual's.
using u8 = uint8_t;

struct mlx5_ifc_cmd_in_bits {
	u8 opcode[0x10];
	u8 uid[0x10];
	u8 vhca_tunnel_id[0x10];
	u8 op_mod[0x10];
	u8 reserved_at_40[0x8];
	u8 number[0x18];
	u8 reserved_at_60[0x20];
};

struct mlx5_ifc_cmd_out_bits {
	u8 status[0x8];
	u8 reserved_at_8[0x18];
	u8 syndrome[0x20];
	u8 reserved_at_40[0x8];
	u8 number[0x18];
	u8 reserved_at_60[0x20];
};

namespace rdma::devx {

enum Opcode : uint16_t {
	QUERY_HCA_CAP = 0x100,
	INIT2INIT_QP = 0x50e,
	QUERY_QP = 0x50b,
	ALLOC_PD = 0x800,
	DEALLOC_PD = 0x801,
};

enum Status : uint8_t {
	OK = 0,
	BAD_OP = 0x2,
	BAD_PARAM = 0x3,
	BAD_RES = 0x5,
	RES_BUSY = 0x6,
	NO_RES = 0xf,
	BAD_QP_STATE = 0x10,
	BAD_INP_LEN = 0x50,
	BAD_OUTP_LEN = 0x51,
};

// A mailbox: zeroed words with an opcode, and room for the answer.
struct Mailbox {
	std::vector<uint32_t> in;
	std::vector<uint32_t> out;

	Mailbox(Opcode op, size_t in_bytes, size_t out_bytes = 16) : in(in_bytes / 4), out(out_bytes / 4)
	{
		DEVX_SET(cmd_in, in.data(), opcode, op);
	}
	size_t in_len() const { return in.size() * 4; }
	size_t out_len() const { return out.size() * 4; }
	uint8_t status() const { return static_cast<uint8_t>(DEVX_GET(cmd_out, out.data(), status)); }
	uint32_t number() const { return DEVX_GET(cmd_out, out.data(), number); }
	Mailbox &names(uint32_t number)
	{
		DEVX_SET(cmd_in, in.data(), number, number);
		return *this;
	}
	// What a call has come to: the status in the mailbox, or a failure of the test if there is none.
	int result(int err) const
	{
		if (err && err != EREMOTEIO)
			fail("command", err);
		if ((err == EREMOTEIO) != (status() != OK))
			fail("EREMOTEIO and the status go together", EPROTO);
		return status();
	}
};

// Page-aligned memory that nothing is registered over yet.
class Buffer {
      public:
	explicit Buffer(size_t size) : size_(size)
	{
		p_ = static_cast<uint8_t *>(mmap(nullptr, size, PROT_READ | PROT_WRITE,
						 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		if (p_ == MAP_FAILED)
			fail("mmap");
	}
	~Buffer() { munmap(p_, size_); }
	Buffer(const Buffer &) = delete;
	Buffer &operator=(const Buffer &) = delete;
	uint8_t *data() const { return p_; }
	size_t size() const { return size_; }

      private:
	uint8_t *p_;
	size_t size_;
};

struct ObjDeleter {
	void operator()(mlx5dv_devx_obj *obj) const
	{
		if (int err = mlx5dv_devx_obj_destroy(obj))
			std::fprintf(stderr, "# mlx5dv_devx_obj_destroy: %s\n", std::strerror(err));
	}
};
using Obj = std::unique_ptr<mlx5dv_devx_obj, ObjDeleter>;

// Makes an object; nullptr with errno, and with a status if that is EREMOTEIO.
inline Obj try_create(const Context &c, Mailbox &m)
{
	return Obj(mlx5dv_devx_obj_create(c.get(), m.in.data(), m.in_len(), m.out.data(), m.out_len()));
}

inline Obj create(const Context &c, Mailbox &m, const char *what)
{
	Obj obj = try_create(c, m);
	if (!obj)
		fail(std::string(what) + ", status " + std::to_string(m.status()));
	return obj;
}

// The status of a creation that fails.
inline int refused(const Context &c, Mailbox &m)
{
	if (Obj obj = try_create(c, m))
		return OK;
	return m.result(errno);
}

inline int query(const Obj &obj, Mailbox &m)
{
	return m.result(mlx5dv_devx_obj_query(obj.get(), m.in.data(), m.in_len(), m.out.data(), m.out_len()));
}

inline int modify(const Obj &obj, Mailbox &m)
{
	return m.result(mlx5dv_devx_obj_modify(obj.get(), m.in.data(), m.in_len(), m.out.data(), m.out_len()));
}

// Fails unless it works: for objects that are still in use.
inline int destroy(Obj &obj)
{
	int err = mlx5dv_devx_obj_destroy(obj.get());
	if (!err)
		(void)obj.release();
	return err;
}

inline Obj alloc_pd(const Context &c, uint32_t *pdn)
{
	Mailbox m(ALLOC_PD, 16);
	Obj obj = create(c, m, "ALLOC_PD");
	*pdn = m.number();
	return obj;
}

} // namespace rdma::devx
