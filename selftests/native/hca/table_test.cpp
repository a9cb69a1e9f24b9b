// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Tables of numbered objects.
#include "world.hpp"

#include <gtest/gtest.h>
#include <set>
#include <thread>

namespace {

struct Table {
	explicit Table(u32 first, u32 limit) { EXPECT_EQ(hca_table_init(&t, first, limit), 0); }
	~Table() { hca_table_destroy(&t); }
	void *find(u32 index)
	{
		rcu_read_lock();
		void *p = hca_table_lookup(&t, index);
		rcu_read_unlock();
		return p;
	}
	u32 reserve()
	{
		u32 index = ~0u;
		EXPECT_EQ(hca_table_reserve(&t, &index), 0);
		return index;
	}
	hca_table t;
};

} // namespace

TEST(Table, GivesOutDifferentNumbersFromTheFirstUpToTheLimit)
{
	for (u32 first : {0u, 1u, 2u, 511u, 512u, 600u}) {
		for (u32 limit : {1u, 100u, 512u, 513u, 3000u}) {
			Table t(first, limit);
			std::set<u32> seen;
			for (u32 i = 0; i < limit; i++) {
				u32 index = t.reserve();
				EXPECT_GE(index, first);
				EXPECT_TRUE(seen.insert(index).second);
			}
			u32 more;
			EXPECT_EQ(hca_table_reserve(&t.t, &more), -ENOMEM);
			/* one back, one again */
			hca_table_release(&t.t, *seen.begin());
			EXPECT_EQ(hca_table_reserve(&t.t, &more), 0);
			EXPECT_EQ(hca_table_reserve(&t.t, &more), -ENOMEM);
		}
	}
}

TEST(Table, AReservedNumberIsFoundOnlyWhilePublished)
{
	Table t(1, 10);
	int object;
	u32 index = t.reserve();
	EXPECT_EQ(t.find(index), nullptr);
	hca_table_publish(&t.t, index, &object);
	EXPECT_EQ(t.find(index), &object);
	hca_table_hide(&t.t, index);
	EXPECT_EQ(t.find(index), nullptr);
	hca_table_publish(&t.t, index, &object);
	hca_table_release(&t.t, index);
	EXPECT_EQ(t.find(index), nullptr);
}

TEST(Table, AnyNumberMayBeLookedUp)
{
	Table t(1, 1000);
	for (u32 index : {0u, 1u, 1000u, 4095u, 0xffffffu, 0x1000000u, 0xffffffffu})
		EXPECT_EQ(t.find(index), nullptr);
}

TEST(Table, AReleasedNumberIsNotGivenOutAgainAtOnce)
{
	Table t(1, 1000);
	std::set<u32> seen;
	for (int i = 0; i < 1000; i++) {
		u32 index = t.reserve();
		EXPECT_TRUE(seen.insert(index).second) << "number " << index << " came back";
		hca_table_release(&t.t, index);
	}
}

TEST(Table, NumbersAreUsedAgainInTheEnd)
{
	Table t(2, 100);
	for (int i = 0; i < 100000; i++)
		hca_table_release(&t.t, t.reserve());
}

TEST(Table, AHundredThousandComeAndGoInAnyOrder)
{
	Table t(1, 65536);
	std::set<u32> have;
	u32 x = 1;
	for (int i = 0; i < 100000; i++) {
		x = x * 1664525 + 1013904223;
		if (have.size() < 5000 || x >> 31) {
			u32 index = t.reserve();
			ASSERT_TRUE(have.insert(index).second);
		} else {
			auto it = have.lower_bound((x >> 8) % 65536);
			if (it == have.end())
				it = have.begin();
			hca_table_release(&t.t, *it);
			have.erase(it);
		}
	}
}

TEST(Table, LackOfMemoryIsAnErrorAndNothingIsLost)
{
	long before = hca_port_live_allocations();
	hca_table t;
	hca_port_fail_allocation(0);
	EXPECT_EQ(hca_table_init(&t, 1, 100), -ENOMEM);
	hca_port_fail_allocation(-1);
	EXPECT_EQ(hca_port_live_allocations(), before);
	ASSERT_EQ(hca_table_init(&t, 1, 5000), 0);
	u32 index;
	hca_port_fail_allocation(0);
	EXPECT_EQ(hca_table_reserve(&t, &index), -ENOMEM);
	hca_port_fail_allocation(-1);
	for (int i = 0; i < 511; i++)
		ASSERT_EQ(hca_table_reserve(&t, &index), 0);
	/* the next one needs a leaf */
	hca_port_fail_allocation(0);
	EXPECT_EQ(hca_table_reserve(&t, &index), -ENOMEM);
	hca_port_fail_allocation(-1);
	EXPECT_EQ(hca_table_reserve(&t, &index), 0);
	EXPECT_EQ(index, 512u);
	hca_table_destroy(&t);
	EXPECT_EQ(hca_port_live_allocations(), before);
}

TEST(Table, ManyThreadsGetDifferentNumbers)
{
	Table t(1, 40000);
	std::vector<std::vector<u32>> got(4);
	std::vector<std::thread> threads;
	for (auto &mine : got)
		threads.emplace_back([&t, &mine] {
			for (int i = 0; i < 5000; i++)
				mine.push_back(t.reserve());
		});
	for (auto &th : threads)
		th.join();
	std::set<u32> all;
	for (auto &mine : got)
		all.insert(mine.begin(), mine.end());
	EXPECT_EQ(all.size(), 20000u);
}
