// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// tally copy SRC DST: the sender is this process, the receiver a child of it.
#include "copy_command.hpp"
#include "interrupt.hpp"
#include "session.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>

namespace tally::cli {
namespace {

// A child process that is waited for, whatever happens.
class child {
    public:
	explicit child(pid_t pid) noexcept : pid_(pid) {}
	child(const child &) = delete;
	child &operator=(const child &) = delete;
	~child() { wait(); }

	// Its wait status.
	int wait() noexcept
	{
		while (pid_ > 0) {
			if (waitpid(pid_, &status_, 0) == pid_ || errno != EINTR)
				pid_ = 0;
		}
		return status_;
	}

	// How it ended, if it was not by itself.
	std::string how_it_died() noexcept
	{
		const int status = wait();
		return WIFSIGNALED(status) ?
			       fmt::format("killed by signal {}, {}", WTERMSIG(status), strsignal(WTERMSIG(status))) :
			       std::string();
	}

    private:
	pid_t pid_;
	int status_ = 0;
};

// Its errors go to the sender, which prints them; only what that cannot tell any more is printed here.
[[noreturn]] void be_receiver(unique_fd socket, destination &to, const copy_options &options)
{
	control_channel control(std::move(socket), "the sender");
	int status = 0;
	try {
		run_receiver(control, to, options, false);
	} catch (const failure &why) {
		status = static_cast<int>(why.status());
		if (why.status() == exit_status::peer_lost)
			fmt::print(stderr, "tally: {}\n", why.what());
	} catch (const std::exception &) {
		status = static_cast<int>(exit_status::failed);
	}
	to.~destination(); // _exit() runs no destructors, and this one leaves nothing half-made behind
	_exit(status);
}

} // namespace

void copy_here(const std::string &source_path, const std::string &destination_path, const copy_options &options)
{
	source from(source_path, options.size);
	destination to(destination_path, std::filesystem::path(source_path).filename());

	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		throw failure(exit_status::failed, errno_text(errno));
	unique_fd mine(ends[0]), its(ends[1]);

	catch_interrupts();
	std::fflush(nullptr);
	const auto pid = fork();
	if (pid < 0)
		throw failure(exit_status::failed, fmt::format("cannot start the receiver: {}", errno_text(errno)));
	if (!pid) {
		mine.reset();
		be_receiver(std::move(its), to, options);
	}

	its.reset();
	child receiver(pid);
	outcome result;
	{
		control_channel control(std::move(mine), "the receiver");
		control.explain_loss_with([&] { return receiver.how_it_died(); });
		result = run_sender(control, from, options);
	}
	if (const int status = receiver.wait(); status)
		throw failure(exit_status::peer_lost, "the receiver failed at its end");
	print_outcome(result);
}

} // namespace tally::cli
