// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The checks of the user-space port find what they are there for.
#include "world.hpp"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>

namespace {

struct Locks {
	Locks()
	{
		hca_port_lock_init(&sq, "&qp->sq.lock");
		hca_port_lock_init(&sq2, "&qp->sq.lock");
		hca_port_lock_init(&rq, "&qp->rq.lock");
		hca_port_lock_init(&cq, "&cq->lock");
		hca_port_lock_init(&route, "&qp->route_lock");
	}
	spinlock_t sq, sq2, rq, cq, route;
};

} // namespace

TEST(PortDeathTest, ALockTakenOutOfOrderIsFound)
{
	Locks l;
	EXPECT_DEATH((spin_lock(&l.rq), spin_lock(&l.sq)), "sq.lock is taken inside .*rq.lock");
	EXPECT_DEATH((spin_lock(&l.cq), spin_lock(&l.route)), "route_lock is taken inside .*cq->lock");
}

TEST(PortDeathTest, TwoLocksOfAClassAreFound)
{
	Locks l;
	EXPECT_DEATH((spin_lock(&l.sq), spin_lock(&l.sq2)), "sq.lock is taken inside");
}

TEST(PortDeathTest, ALockTakenTwiceIsFound)
{
	Locks l;
	EXPECT_DEATH((spin_lock(&l.sq), spin_lock(&l.sq)), "taken twice");
}

TEST(PortDeathTest, ALockGivenUpByAnotherIsFound)
{
	Locks l;
	EXPECT_DEATH(spin_unlock(&l.sq), "does not hold it");
}

TEST(PortDeathTest, AnUnknownLockIsFound)
{
	spinlock_t lock;
	EXPECT_DEATH(spin_lock_init(&lock), "no place in the order");
	spinlock_t never{};
	EXPECT_DEATH(spin_lock(&never), "never initialized");
}

TEST(PortDeathTest, ALookupOutsideAReadSectionIsFound)
{
	hca_table t;
	ASSERT_EQ(hca_table_init(&t, 1, 10), 0);
	EXPECT_DEATH(hca_table_lookup(&t, 1), "rcu_read_lock_held");
	hca_table_destroy(&t);
}

TEST(PortDeathTest, SleepingInsideAReadSectionOrUnderALockIsFound)
{
	Locks l;
	EXPECT_DEATH((rcu_read_lock(), synchronize_rcu()), "depth");
	EXPECT_DEATH((spin_lock(&l.sq), kzalloc(1, GFP_KERNEL)), "locks_held");
	EXPECT_DEATH(rcu_read_unlock(), "depth");
}

TEST(Port, LocksInOrderAreFine)
{
	Locks l;
	spin_lock(&l.sq);
	EXPECT_TRUE(lockdep_is_held(&l.sq));
	spin_lock(&l.rq);
	spin_lock(&l.cq);
	EXPECT_EQ(hca_port_locks_held(), 3);
	spin_unlock(&l.rq);
	spin_unlock(&l.sq);
	spin_unlock(&l.cq);
	EXPECT_EQ(hca_port_locks_held(), 0);
	EXPECT_FALSE(lockdep_is_held(&l.sq));
}

TEST(Port, ALockExcludes)
{
	Locks l;
	long n = 0;
	auto work = [&] {
		for (int i = 0; i < 100000; i++) {
			spin_lock(&l.sq);
			n = n + 1;
			spin_unlock(&l.sq);
		}
	};
	std::thread other(work);
	work();
	other.join();
	EXPECT_EQ(n, 200000);
}

TEST(Port, AGracePeriodWaitsForReaders)
{
	std::atomic<int> stage{0};
	std::thread reader([&] {
		rcu_read_lock();
		rcu_read_lock();
		rcu_read_unlock();
		stage = 1;
		std::this_thread::sleep_for(std::chrono::milliseconds(50));
		stage = 2;
		rcu_read_unlock();
	});
	while (!stage)
		std::this_thread::yield();
	synchronize_rcu();
	EXPECT_EQ(stage, 2);
	reader.join();
	synchronize_rcu();
}
