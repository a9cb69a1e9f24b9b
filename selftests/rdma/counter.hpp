// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A completion counter that is attached to whole queue pairs.
#pragma once

#include "ktap.hpp"
#include "verbs.hpp"

#include <tally/verbs.h>

namespace rdma {

struct CounterDeleter {
	void operator()(ibv_comp_cntr *c) const { EXPECT_EQ(ibv_destroy_comp_cntr(c), 0); }
};

class Counter {
      public:
	explicit Counter(Context &c, ibv_comp_cntr_type type = IBV_COMP_CNTR_TYPE_WRS)
	{
		ibv_comp_cntr_init_attr a{};
		a.type = type;
		c_.reset(ibv_create_comp_cntr(c.get(), &a));
		if (!c_)
			fail("create_comp_cntr");
	}
	int attach(ibv_qp *qp, uint32_t ops) const
	{
		ibv_qp_attach_comp_cntr_attr a{};
		a.op_mask = ops;
		return ibv_qp_attach_comp_cntr(qp, c_.get(), &a);
	}
	bool becomes(uint64_t done, uint64_t failed = 0) const
	{
		return eventually([&] {
			uint64_t v = ~0ull, e = ~0ull;
			must(ibv_read_comp_cntr(c_.get(), &v), "read");
			must(ibv_read_err_comp_cntr(c_.get(), &e), "read_err");
			return v == done && e == failed;
		}, 5s);
	}

      private:
	std::unique_ptr<ibv_comp_cntr, CounterDeleter> c_;
};

} // namespace rdma
