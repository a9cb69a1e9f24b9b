// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// tally copy SRC DST: the sender is this process, the receiver a child of it.
#include "copy_command.hpp"
#include "interrupt.hpp"
#include "rdma_path.hpp"
#include "session.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>

namespace tally::cli {
namespace {

// A child process that is waited for, whatever happens: one that does not end by itself when the other end of its
// socket is closed is told to, and in the end made to.
class child {
    public:
	explicit child(pid_t pid) noexcept : pid_(pid) {}
	child(const child &) = delete;
	child &operator=(const child &) = delete;
	~child()
	{
		for (const int signal : {0, SIGTERM, SIGKILL}) {
			if (pid_ > 0 && signal)
				kill(pid_, signal);
			if (signal != SIGKILL && wait_for(std::chrono::seconds(2)))
				return;
		}
		wait();
	}

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
	// Whether it is gone by then.
	bool wait_for(std::chrono::milliseconds patience) noexcept
	{
		constexpr std::chrono::milliseconds step{5};
		for (; pid_ > 0; patience -= step) {
			const auto ended = waitpid(pid_, &status_, WNOHANG);
			if (ended == pid_ || (ended < 0 && errno != EINTR))
				pid_ = 0;
			else if (patience <= step)
				return false;
			else
				std::this_thread::sleep_for(step);
		}
		return true;
	}

	pid_t pid_;
	int status_ = 0;
};

// Its errors go to the sender, which prints them; only what that cannot tell any more is printed here.
[[noreturn]] void be_receiver(unique_fd socket, destination &to, const copy_options &options,
			      const path_maker &make_path, pid_t sender)
{
	control_channel control(std::move(socket), "the sender");
	int status = 0;
	try {
		// The socket tells of the sender's death too, to one who does not sleep in a system call.
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != sender)
			throw failure(exit_status::peer_lost, "");
		run_receiver(control, to, options, make_path, false);
	} catch (const failure &why) {
		status = static_cast<int>(why.status());
		if (getppid() != sender || why.status() == exit_status::peer_lost)
			fmt::print(stderr, "tally: the sender died or went away\n");
	} catch (const std::exception &) {
		status = static_cast<int>(exit_status::failed);
	}
	to.~destination(); // _exit() runs no destructors, and this one leaves nothing half-made behind
	_exit(status);
}

} // namespace

void copy_here(const std::string &source_path, const std::string &destination_path, const copy_options &options)
{
	// Each process opens the device for itself: what is open does not survive fork().
	const path_maker make_path = [&](wire::role role, const ring_geometry &ring) {
		return rdma_paths(options.device)(role, ring);
	};
	// Before anything that takes long or leaves something behind.
	catch_interrupts();
	source from(source_path, options.size);
	destination to(destination_path, std::filesystem::path(source_path).filename());

	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		throw failure(exit_status::failed, errno_text(errno));
	unique_fd mine(ends[0]), its(ends[1]);

	std::fflush(nullptr);
	const auto self = getpid();
	const auto pid = fork();
	if (pid < 0)
		throw failure(exit_status::failed, fmt::format("cannot start the receiver: {}", errno_text(errno)));
	if (!pid) {
		mine.reset();
		be_receiver(std::move(its), to, options, make_path, self);
	}

	its.reset();
	child receiver(pid);
	outcome result;
	{
		control_channel control(std::move(mine), "the receiver");
		control.explain_loss_with([&] { return receiver.how_it_died(); });
		result = run_sender(control, from, options, make_path);
	}
	if (const int status = receiver.wait(); status)
		throw failure(exit_status::peer_lost, "the receiver failed at its end");
	print_outcome(result);
}

} // namespace tally::cli
