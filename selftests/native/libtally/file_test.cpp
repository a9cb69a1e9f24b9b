// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Where a copy comes from and where it goes.
#include "copy/destination.hpp"
#include "copy/digest.hpp"
#include "copy/source.hpp"
#include "failure.hpp"
#include "temporary_folder.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace tally::cli;
using tally::test::read_file;
using tally::test::temporary_folder;
using tally::test::write_file;

std::span<const std::byte> bytes_of(std::string_view text)
{
	return std::as_bytes(std::span{text});
}

std::string read_all(source &from, std::size_t step)
{
	std::string all;
	std::vector<std::byte> buffer(step);
	for (;;) {
		const auto got = from.read(buffer);
		all.append(reinterpret_cast<const char *>(buffer.data()), got);
		if (got < step)
			return all;
	}
}

template <typename Do> exit_status status_of(Do &&run)
{
	try {
		run();
	} catch (const failure &f) {
		return f.status();
	}
	return exit_status::ok;
}

unsigned mode_of(const std::string &path)
{
	struct stat st {};
	EXPECT_EQ(stat(path.c_str(), &st), 0);
	return st.st_mode & 07777;
}

TEST(source_file, gives_all_of_its_bytes)
{
	temporary_folder folder;
	const std::string contents = "all the bytes there are";
	write_file(folder / "a", contents);
	chmod((folder / "a").c_str(), 0640);
	for (const std::size_t step : {1u, 4u, 23u, 100u}) {
		source from(folder / "a", std::nullopt);
		EXPECT_EQ(from.size(), contents.size());
		EXPECT_EQ(from.mode(), 0640u);
		EXPECT_EQ(read_all(from, step), contents);
	}
}

TEST(source_file, may_be_empty)
{
	temporary_folder folder;
	write_file(folder / "a", "");
	source from(folder / "a", std::nullopt);
	EXPECT_EQ(read_all(from, 10), "");
}

TEST(source_file, with_a_size_gives_only_so_much)
{
	temporary_folder folder;
	write_file(folder / "a", "0123456789");
	source some(folder / "a", 4);
	EXPECT_EQ(some.size(), 4u);
	EXPECT_EQ(read_all(some, 3), "0123");
	source none(folder / "a", 0);
	EXPECT_EQ(read_all(none, 3), "");
	source zeros("/dev/zero", 5);
	EXPECT_EQ(zeros.size(), 5u);
	EXPECT_EQ(read_all(zeros, 3), std::string(5, '\0'));
}

TEST(source_file, that_is_shorter_than_the_size_is_an_error)
{
	temporary_folder folder;
	write_file(folder / "a", "0123456789");
	EXPECT_EQ(status_of([&] { source(folder / "a", 11); }), exit_status::source);
	source empty("/dev/null", 1);
	std::byte buffer[4];
	EXPECT_EQ(status_of([&] { (void)empty.read(buffer); }), exit_status::source);
}

TEST(source_file, that_cannot_be_read_is_an_error)
{
	temporary_folder folder;
	EXPECT_EQ(status_of([&] { source(folder / "missing", std::nullopt); }), exit_status::source);
	EXPECT_EQ(status_of([&] { source(folder.path(), std::nullopt); }), exit_status::source);
	source memory("/proc/self/mem", std::nullopt); // opens, but there is nothing at address 0
	std::byte buffer[4];
	EXPECT_EQ(status_of([&] { (void)memory.read(buffer); }), exit_status::source);
}

TEST(destination_file, appears_when_it_is_complete)
{
	temporary_folder folder;
	const auto mask = umask(022);
	{
		destination to(folder / "a", "");
		to.write(bytes_of("some "));
		to.write(bytes_of("bytes"));
		EXPECT_FALSE(std::filesystem::exists(folder / "a"));
		to.keep(0775);
	}
	umask(mask);
	EXPECT_EQ(read_file(folder / "a"), "some bytes");
	EXPECT_EQ(mode_of(folder / "a"), 0755u);
	EXPECT_EQ(folder.entries(), 1u);
}

TEST(destination_file, that_is_not_kept_leaves_nothing)
{
	temporary_folder folder;
	{
		destination to(folder / "a", "");
		to.write(bytes_of("half"));
	}
	EXPECT_EQ(folder.entries(), 0u);
}

TEST(destination_file, replaces_another_only_when_it_is_complete)
{
	temporary_folder folder;
	write_file(folder / "a", "before");
	chmod((folder / "a").c_str(), 0600);
	{
		destination to(folder / "a", "");
		to.write(bytes_of("half"));
	}
	EXPECT_EQ(read_file(folder / "a"), "before");
	{
		destination to(folder / "a", "");
		to.write(bytes_of("after"));
		to.keep(0777);
	}
	EXPECT_EQ(read_file(folder / "a"), "after");
	EXPECT_EQ(mode_of(folder / "a"), 0600u) << "as it was";
	EXPECT_EQ(folder.entries(), 1u);
}

TEST(destination_file, goes_into_a_directory_under_the_name_of_the_source)
{
	temporary_folder folder;
	destination to(folder.path(), "name");
	EXPECT_EQ(to.path(), folder / "name");
	to.keep(0644);
	EXPECT_EQ(read_file(folder / "name"), "");
	EXPECT_EQ(status_of([&] { destination(folder.path(), ""); }), exit_status::destination);
}

TEST(destination_file, behind_a_link_is_replaced_where_it_is)
{
	temporary_folder folder;
	std::filesystem::create_directory(folder / "there");
	write_file(folder / "there/file", "before");
	std::filesystem::create_symlink("there/file", folder / "link");
	destination to(folder / "link", "");
	to.write(bytes_of("after"));
	to.keep(0644);
	EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
	EXPECT_EQ(read_file(folder / "there/file"), "after");
}

TEST(destination_file, behind_a_link_that_leads_nowhere_yet_is_created_there)
{
	temporary_folder folder;
	std::filesystem::create_directory(folder / "there");
	std::filesystem::create_symlink("there/link", folder / "link");
	std::filesystem::create_symlink(folder / "there/file", folder / "there/link");
	destination to(folder / "link", "");
	to.write(bytes_of("new"));
	to.keep(0644);
	EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
	EXPECT_TRUE(std::filesystem::is_symlink(folder / "there/link"));
	EXPECT_EQ(read_file(folder / "there/file"), "new");
	EXPECT_EQ(folder.entries(), 2u);

	std::filesystem::create_symlink("round", folder / "round");
	EXPECT_EQ(status_of([&] { destination(folder / "round", ""); }), exit_status::destination);
}

// Runs something where no file is without a name, as on NFS or FAT.
template <typename Do> void where_every_file_has_a_name(Do &&run)
{
	constexpr auto argument = offsetof(seccomp_data, args[2]); // the flags
	std::vector<sock_filter> filter{
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	std::thread([&] {
		const sock_fprog program{.len = static_cast<unsigned short>(filter.size()), .filter = filter.data()};
		ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
		ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0); // of this thread
		ASSERT_LT(open("/tmp", O_TMPFILE | O_WRONLY, 0600), 0);
		run();
	}).join();
}

TEST(destination_file, that_has_a_name_from_the_beginning_has_a_hidden_one)
{
	temporary_folder folder;
	where_every_file_has_a_name([&] {
		{
			destination to(folder / "a", "");
			to.write(bytes_of("half"));
			EXPECT_EQ(folder.entries(), 1u);
			EXPECT_TRUE(std::filesystem::directory_iterator(folder.path())
					    ->path()
					    .filename()
					    .string()
					    .starts_with(".tally-copy."));
		}
		EXPECT_EQ(folder.entries(), 0u) << "it does not outlive the failure";
		destination to(folder / "a", "");
		to.write(bytes_of("nonsense"));
		EXPECT_TRUE(to.start_over());
		to.write(bytes_of("whole"));
		to.keep(0640);
	});
	EXPECT_EQ(read_file(folder / "a"), "whole");
	EXPECT_EQ(mode_of(folder / "a"), 0640u);
	EXPECT_EQ(folder.entries(), 1u);
}

TEST(destination_file, may_have_as_long_a_name_as_there_can_be)
{
	temporary_folder folder;
	const std::string longest(255, 'n');
	const auto copy = [&](const std::string &directory) {
		destination to(folder / directory, longest);
		to.write(bytes_of("x"));
		to.keep(0644);
		EXPECT_EQ(read_file(folder / directory + "/" + longest), "x");
	};
	std::filesystem::create_directory(folder / "named");
	std::filesystem::create_directory(folder / "unnamed");
	copy("unnamed");
	where_every_file_has_a_name([&] { copy("named"); });
	EXPECT_EQ(status_of([&] { destination(folder / (longest + "n"), ""); }), exit_status::destination)
		<< "a longer one is refused before anything is written";
}

TEST(destination_file, starts_over_as_if_nothing_had_been_written)
{
	temporary_folder folder;
	destination to(folder / "a", "");
	EXPECT_TRUE(to.start_over());
	to.write(bytes_of("a long beginning"));
	EXPECT_TRUE(to.start_over());
	to.write(bytes_of("short"));
	to.keep(0644);
	EXPECT_FALSE(to.start_over()) << "it has been kept";
	EXPECT_EQ(read_file(folder / "a"), "short");
}

// Owner and permissions of a file that root has replaced.
struct stat replaced_by_root(unsigned mode)
{
	temporary_folder folder;
	write_file(folder / "a", "before");
	EXPECT_EQ(chown((folder / "a").c_str(), 1234, 5678), 0);
	EXPECT_EQ(chmod((folder / "a").c_str(), mode), 0);
	destination to(folder / "a", "");
	to.write(bytes_of("after"));
	to.keep(0777);
	struct stat st {};
	EXPECT_EQ(stat((folder / "a").c_str(), &st), 0);
	return st;
}

TEST(destination_file, that_replaces_anothers_keeps_its_owner_but_never_set_user_id)
{
	if (geteuid())
		GTEST_SKIP() << "only root may give files away";
	for (const unsigned mode : {0640u, 0755u, 04755u, 02755u, 06711u, 01777u}) {
		const auto st = replaced_by_root(mode);
		EXPECT_EQ(st.st_uid, 1234u);
		EXPECT_EQ(st.st_gid, 5678u);
		EXPECT_EQ(st.st_mode & 07777, mode & 0777) << std::oct << mode;
	}
}

TEST(destination_file, whose_group_cannot_be_kept_is_no_more_open_to_another_group_than_to_all)
{
	if (geteuid())
		GTEST_SKIP() << "only root can be somebody else";
	temporary_folder folder;
	write_file(folder / "a", "before");
	chmod((folder / "a").c_str(), 0664);
	ASSERT_EQ(chown((folder / "a").c_str(), 1234, 5678), 0);
	ASSERT_EQ(chown(folder.path().c_str(), 1234, 4321), 0);
	EXPECT_EXIT(
		{
			if (setgroups(0, nullptr) || setgid(4321) || setuid(1234))
				std::_Exit(2);
			destination to(folder / "a", "");
			to.keep(0777);
			std::_Exit(0);
		},
		testing::ExitedWithCode(0), "");
	EXPECT_EQ(mode_of(folder / "a"), 0644u);
}

TEST(destination_file, where_none_can_be_is_an_error)
{
	temporary_folder folder;
	EXPECT_EQ(status_of([&] { destination(folder / "missing/a", ""); }), exit_status::destination);
	write_file(folder / "a", "");
	EXPECT_EQ(status_of([&] { destination(folder / "a/b", ""); }), exit_status::destination);
	EXPECT_EQ(status_of([&] { destination("/proc/self/no", ""); }), exit_status::destination);
}

TEST(destination_device, is_written_to_as_it_is)
{
	destination to("/dev/null", "");
	to.write(bytes_of("gone"));
	to.keep(0600);
	EXPECT_NE(mode_of("/dev/null"), 0600u);
}

TEST(destination_device, that_has_got_something_cannot_start_over)
{
	destination to("/dev/null", "");
	EXPECT_TRUE(to.start_over());
	to.write(bytes_of("gone"));
	EXPECT_FALSE(to.start_over());
}

TEST(destination_pipe, that_takes_nothing_lets_the_writer_look_about)
{
	temporary_folder folder;
	ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
	const unique_fd reader(open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK));
	destination to(folder / "pipe", "");
	int looks = 0;
	EXPECT_EQ(status_of([&] {
			  const std::vector<std::byte> much(1 << 20);
			  to.write(much, [&] {
				  if (++looks == 3)
					  throw failure(exit_status::peer_lost, "gone");
			  });
		  }),
		  exit_status::peer_lost);
}

TEST(destination_device, that_is_full_says_so)
{
	destination to("/dev/full", "");
	EXPECT_EQ(status_of([&] { to.write(bytes_of("more")); }), exit_status::disk_full);
}

TEST(hash, is_SHA_256)
{
	digest empty(true);
	EXPECT_EQ(to_hex(empty.finish()), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	digest abc(true);
	abc.update(bytes_of("a"));
	abc.update(bytes_of("bc"));
	EXPECT_EQ(to_hex(abc.finish()), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

} // namespace
