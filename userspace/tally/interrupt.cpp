// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "interrupt.hpp"
#include "failure.hpp"

#include <csignal>

namespace tally::cli {
namespace {

volatile std::sig_atomic_t noted = 0;

void note(int)
{
	noted = 1;
}

} // namespace

void catch_interrupts() noexcept
{
	struct sigaction action {};
	sigemptyset(&action.sa_mask);
	action.sa_handler = note; // without SA_RESTART: sleeping calls return
	sigaction(SIGINT, &action, nullptr);
	sigaction(SIGTERM, &action, nullptr);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, nullptr);
}

bool interrupted() noexcept
{
	return noted;
}

void throw_if_interrupted()
{
	if (noted)
		throw failure(exit_status::interrupted, "interrupted");
}

} // namespace tally::cli
