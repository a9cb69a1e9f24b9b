// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A libibverbs that has counters itself, with a provider that hides its own structure behind them.
#include "fake_kernel.hpp"
#include "native_verbs.hpp"

#include <gtest/gtest.h>
#include <memory>
#include <string>

namespace {

using tally::test::fake_kernel;

// The smallest a provider can make it: not a byte behind the public part may be touched.
struct provider {
	static inline bool has_device = true;
	static inline std::string last;
	static inline std::uint64_t value = 0;

	static int query(ibv_context *, ibv_comp_cntr_caps *caps, std::size_t)
	{
		if (!has_device)
			return EOPNOTSUPP;
		*caps = {1, 2, 3};
		return 0;
	}
	static ibv_comp_cntr *create(ibv_context *context, ibv_comp_cntr_init_attr *attr)
	{
		last = "create";
		if (attr->flags) {
			errno = EOPNOTSUPP;
			return nullptr;
		}
		return new ibv_comp_cntr{context, 1};
	}
	static int destroy(ibv_comp_cntr *cntr)
	{
		last = "destroy";
		delete cntr;
		return 0;
	}
	static int set(ibv_comp_cntr *, std::uint64_t v) { return note("set", v); }
	static int set_err(ibv_comp_cntr *, std::uint64_t v) { return note("set_err", v); }
	static int inc(ibv_comp_cntr *, std::uint64_t v) { return note("inc", v); }
	static int inc_err(ibv_comp_cntr *, std::uint64_t v) { return note("inc_err", v); }
	static int read(ibv_comp_cntr *, std::uint64_t *v)
	{
		last = "read";
		*v = 11;
		return 0;
	}
	static int read_err(ibv_comp_cntr *, std::uint64_t *v)
	{
		last = "read_err";
		*v = 12;
		return 0;
	}
	static int attach(ibv_qp *, ibv_comp_cntr *, ibv_qp_attach_comp_cntr_attr *)
	{
		last = "attach";
		return 0;
	}
	static int note(const char *what, std::uint64_t v)
	{
		last = what;
		value = v;
		return 0;
	}
};

class native_verbs : public testing::Test {
    protected:
	native_verbs()
	{
		provider::has_device = true;
		tally::set_native_verbs(&verbs);
	}
	~native_verbs() override { tally::set_native_verbs(nullptr); }

	tally::native_verbs verbs{provider::query,    provider::create, provider::destroy, provider::set,
				  provider::set_err,  provider::inc,	provider::inc_err, provider::read,
				  provider::read_err, provider::attach};
	fake_kernel kernel;
	ibv_comp_cntr_init_attr attr{};
};

TEST_F(native_verbs, have_a_device_of_their_own_to_themselves)
{
	ibv_comp_cntr_caps caps{};
	EXPECT_EQ(ibv_query_comp_cntr_caps(kernel.context(), &caps), 0);
	EXPECT_EQ(caps.max_value, 1u);

	auto *cntr = ibv_create_comp_cntr(kernel.context(), &attr);
	ASSERT_NE(cntr, nullptr);
	EXPECT_EQ(provider::last, "create");
	std::uint64_t value = 0;
	EXPECT_EQ(ibv_read_comp_cntr(cntr, &value), 0);
	EXPECT_EQ(value, 11u);
	EXPECT_EQ(ibv_read_err_comp_cntr(cntr, &value), 0);
	EXPECT_EQ(value, 12u);
	EXPECT_EQ(ibv_set_comp_cntr(cntr, 1), 0);
	EXPECT_EQ(provider::last, "set");
	EXPECT_EQ(ibv_set_err_comp_cntr(cntr, 2), 0);
	EXPECT_EQ(provider::last, "set_err");
	EXPECT_EQ(ibv_inc_comp_cntr(cntr, 3), 0);
	EXPECT_EQ(provider::last, "inc");
	EXPECT_EQ(ibv_inc_err_comp_cntr(cntr, 4), 0);
	EXPECT_EQ(provider::last, "inc_err");
	EXPECT_EQ(provider::value, 4u);
	auto qp = kernel.make_qp(1);
	ibv_qp_attach_comp_cntr_attr attach{0, 1};
	EXPECT_EQ(ibv_qp_attach_comp_cntr(&qp, cntr, &attach), 0);
	EXPECT_EQ(provider::last, "attach");
	EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
	EXPECT_EQ(provider::last, "destroy");
	EXPECT_TRUE(kernel.commands.empty()) << "the kernel is asked by libibverbs only";
}

TEST_F(native_verbs, errors_of_theirs_are_theirs)
{
	attr.flags = 1;
	errno = 0;
	EXPECT_EQ(ibv_create_comp_cntr(kernel.context(), &attr), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(native_verbs, leave_other_devices_to_this_library)
{
	provider::has_device = false;
	ibv_comp_cntr_caps caps{};
	EXPECT_EQ(ibv_query_comp_cntr_caps(kernel.context(), &caps), 0);
	EXPECT_EQ(caps.max_counters, kernel.max_counters);
	provider::last.clear();
	auto *cntr = ibv_create_comp_cntr(kernel.context(), &attr);
	ASSERT_NE(cntr, nullptr);
	std::uint64_t value = 1;
	EXPECT_EQ(ibv_read_comp_cntr(cntr, &value), 0);
	EXPECT_EQ(value, 0u);
	EXPECT_EQ(ibv_inc_comp_cntr(cntr, 1), 0);
	EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
	EXPECT_EQ(provider::last, "") << "no counter of ours reaches the provider";
}

TEST_F(native_verbs, counters_of_theirs_have_no_extensions)
{
	auto *cntr = ibv_create_comp_cntr(kernel.context(), &attr);
	ASSERT_NE(cntr, nullptr);
	tally_comp_cntr_words words{};
	EXPECT_EQ(tally_get_comp_cntr_words(cntr, &words), ENOTSUP);
	EXPECT_EQ(tally_wait_comp_cntr(cntr, 0, 0, 0), ENOTSUP);
	EXPECT_EQ(tally_notify_comp_cntr(cntr, 0, nullptr, 1), ENOTSUP);
	EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
}

TEST_F(native_verbs, memory_of_the_caller_is_this_librarys_on_every_device)
{
	std::uint64_t comp = 1, err = 1;
	tally_comp_cntr_init_attr external{};
	external.comp = {TALLY_MEMORY_VA, -1, &comp, 0};
	external.err = {TALLY_MEMORY_VA, -1, &err, 0};
	auto *cntr = tally_create_comp_cntr(kernel.context(), &external);
	ASSERT_NE(cntr, nullptr);
	EXPECT_EQ(comp, 0u);
	EXPECT_EQ(ibv_inc_comp_cntr(cntr, 2), 0);
	EXPECT_EQ(comp, 2u);
	EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
}

TEST_F(native_verbs, half_a_set_is_none)
{
	verbs.attach = nullptr;
	EXPECT_FALSE(verbs.complete());
	auto *cntr = ibv_create_comp_cntr(kernel.context(), &attr);
	ASSERT_NE(cntr, nullptr);
	EXPECT_EQ(kernel.alive.size(), 1u);
	EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
}

TEST(without_native_verbs, a_counter_that_is_not_ours_is_EINVAL)
{
	const tally::native_verbs none;
	tally::set_native_verbs(&none);
	ibv_comp_cntr stranger{};
	std::uint64_t value = 0;
	EXPECT_EQ(ibv_read_comp_cntr(&stranger, &value), EINVAL);
	EXPECT_EQ(ibv_destroy_comp_cntr(&stranger), EINVAL);
	EXPECT_EQ(ibv_inc_comp_cntr(&stranger, 1), EINVAL);
	tally::set_native_verbs(nullptr);
}

} // namespace
