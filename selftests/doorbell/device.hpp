// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The driver as tests want it: other parameters, a device of their own.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>

#include "../rdma/verbs.hpp"

namespace rdma {

// A module parameter with another value for a while.
class Parameter {
      public:
	Parameter(const std::string &name, const std::string &value) : file_("/sys/module/tally/parameters/" + name)
	{
		std::ifstream(file_) >> before_;
		set(value);
	}
	~Parameter() { std::ofstream(file_) << before_; }

      private:
	void set(const std::string &value)
	{
		std::ofstream f(file_);
		f << value << std::flush;
		if (!f)
			fail("write " + file_, EINVAL);
	}
	std::string file_, before_;
};

inline void shell(const std::string &command)
{
	if (std::system(command.c_str()) != 0)
		fail(command, EIO);
}

// A device of the test's own.
struct Link {
	std::string name = "tally9", netdev = "tallytest9";

	Link()
	{
		shell("ip link add " + netdev + " type dummy && ip addr add 10.79.0.1/24 dev " + netdev +
		      " && ip link set " + netdev + " up");
		shell("rdma link add " + name + " type tally netdev " + netdev);
	}
	~Link()
	{
		remove();
		std::system(("ip link del " + netdev).c_str());
	}
	void remove()
	{
		if (!there)
			return;
		there = false;
		shell("rdma link delete " + name);
	}
	bool there = true;
};

} // namespace rdma
