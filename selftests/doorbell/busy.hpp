// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// CPUs that have something else to do.
#pragma once

#include <thread>
#include <unistd.h>
#include <vector>

#include "../rdma/verbs.hpp"

namespace rdma {

// Keeps every CPU busy, whatever else runs.
class Busy {
      public:
	Busy()
	{
		for (long i = 0; i < sysconf(_SC_NPROCESSORS_ONLN); i++)
			spinners_.emplace_back([](const std::stop_token &stop) {
				while (!stop.stop_requested())
					;
			});
	}

      private:
	std::vector<std::jthread> spinners_;
};

} // namespace rdma
