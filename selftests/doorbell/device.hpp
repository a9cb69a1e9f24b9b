// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The driver as tests want it: other parameters, a device of their own.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <sys/types.h>

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

// A device's engines: the threads, by their names.
inline std::map<std::string, pid_t> engines_of(const std::string &device)
{
	std::map<std::string, pid_t> found;

	for (auto &entry : std::filesystem::directory_iterator("/proc")) {
		std::ifstream comm(entry.path() / "comm");
		std::string name;
		if (std::getline(comm, name) && name.rfind(device + "-engine", 0) == 0)
			found[name] = std::stoi(entry.path().filename());
	}
	return found;
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
