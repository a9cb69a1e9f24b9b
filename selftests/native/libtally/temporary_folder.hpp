// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A folder for one test, and files in it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <string>

namespace tally::test {

class temporary_folder {
    public:
	temporary_folder()
	{
		auto name = (std::filesystem::temp_directory_path() / "tally-test.XXXXXX").string();
		if (!mkdtemp(name.data()))
			ADD_FAILURE() << "no temporary folder";
		path_ = name;
	}
	temporary_folder(const temporary_folder &) = delete;
	temporary_folder &operator=(const temporary_folder &) = delete;
	~temporary_folder() { std::filesystem::remove_all(path_); }

	std::string operator/(const std::string &name) const { return path_ / name; }
	const std::filesystem::path &path() const { return path_; }

	// How many entries there are, hidden ones too.
	std::size_t entries() const
	{
		return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
	}

    private:
	std::filesystem::path path_;
};

inline void write_file(const std::string &path, const std::string &contents)
{
	std::ofstream(path, std::ios::binary) << contents;
}

inline std::string read_file(const std::string &path)
{
	std::ostringstream contents;
	contents << std::ifstream(path, std::ios::binary).rdbuf();
	return contents.str();
}

} // namespace tally::test
