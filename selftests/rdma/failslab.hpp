// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Makes the kernel's allocations fail, one by one.
#pragma once

#include "ktap.hpp"
#include "verbs.hpp"

#include <fcntl.h>
#include <fstream>
#include <unistd.h>

namespace rdma {

// The nth kernel allocation of this thread fails, from construction on (Documentation/fault-injection).
class FailNth {
      public:
	explicit FailNth(int n) : fd_(open("/proc/thread-self/fail-nth", O_RDWR))
	{
		if (fd_ < 0)
			fail("open fail-nth: the kernel has no fault injection");
		write(n);
	}
	~FailNth()
	{
		disarm();
		close(fd_);
	}
	// Ends it; says whether the failure has happened.
	bool disarm()
	{
		char buf[16] = {};
		lseek(fd_, 0, SEEK_SET);
		// Copies to and from user space are made to fail as well, this one too: then the call got off.
		const bool injected = read(fd_, buf, sizeof(buf) - 1) > 0 && std::atoi(buf) == 0;
		write(0);
		return injected;
	}

      private:
	void write(int n)
	{
		const std::string s = std::to_string(n);
		for (int tries = 2; tries; tries--) {
			lseek(fd_, 0, SEEK_SET);
			if (::write(fd_, s.data(), s.size()) == static_cast<ssize_t>(s.size()))
				return;
		}
		fail("write fail-nth");
	}
	int fd_;
};

inline void set(const char *file, const char *value)
{
	std::ofstream f(file);
	f << value;
	f.flush();
	if (!f)
		fail(std::string("write ") + file, EINVAL);
}

inline void enable()
{
	set("/sys/kernel/debug/failslab/ignore-gfp-wait", "N");
	set("/sys/kernel/debug/failslab/verbose", "0");
}

// Runs a call with its 1st, 2nd, ... allocation failing, until none is left to fail; then it must succeed.
// @call returns 0 or an errno; @undo reverses a success; @last: none behind this one is made to fail.
inline void sweep(const std::function<int()> &call, const std::function<void()> &undo = [] {}, int last = 0)
{
	constexpr int most = 1000;

	enable();
	must(call(), "without any failure");
	undo();
	int n = 1;
	for (; !last || n <= last; n++) {
		ASSERT_LT(n, most) << "no end of allocations";
		int err;
		bool injected;
		{
			FailNth nth(n);
			err = call();
			injected = nth.disarm();
		}
		if (!err)
			undo();
		else
			ASSERT_TRUE(injected) << "allocation " << n << ": " << std::strerror(err);
		if (!injected)
			break;
		ASSERT_EQ(call(), 0) << "after a failure of allocation " << n;
		undo();
	}
	EXPECT_GT(n, 1) << "no allocation was made to fail";
}

template <class T> int got(T *&to, T *p)
{
	to = p;
	return p ? 0 : errno;
}

} // namespace rdma
