// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// KTAP output for GoogleTest.  --gtest_filter and the other options of GoogleTest work as usual.
#include "ktap.hpp"

#include <cstdio>

namespace {

class Body : public testing::Test {
      public:
	explicit Body(std::function<void()> f) : f_(std::move(f)) {}
	void TestBody() override { f_(); }

      private:
	std::function<void()> f_;
};

class Printer : public testing::EmptyTestEventListener {
	int number_ = 0;

	void OnTestProgramStart(const testing::UnitTest &) override { std::puts("KTAP version 1"); }

	void OnTestIterationStart(const testing::UnitTest &unit, int) override
	{
		number_ = 0;
		std::printf("1..%d\n", unit.test_to_run_count());
	}

	void OnTestPartResult(const testing::TestPartResult &result) override
	{
		if (!result.failed())
			return;
		std::string text = result.message();
		for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 4)
			text.replace(at, 1, "\n#   ");
		std::printf("# %s:%d: %s\n", result.file_name() ? result.file_name() : "?",
			    result.line_number(), text.c_str());
	}

	void OnTestEnd(const testing::TestInfo &info) override
	{
		const testing::TestResult &r = *info.result();
		std::printf("%s %d - %s: %s%s\n", r.Failed() ? "not ok" : "ok", ++number_,
			    info.test_suite_name(), info.name(), r.Skipped() ? " # SKIP" : "");
		std::fflush(stdout);
	}

	void OnTestProgramEnd(const testing::UnitTest &unit) override
	{
		std::printf("# Totals: pass:%d fail:%d skip:%d\n", unit.successful_test_count(),
			    unit.failed_test_count(), unit.skipped_test_count());
	}
};

} // namespace

void ktap::add(const char *suite, const std::string &sentence, std::function<void()> body, const char *file,
	       int line)
{
	testing::RegisterTest(suite, sentence.c_str(), nullptr, nullptr, file, line,
			      [body = std::move(body)]() -> testing::Test * { return new Body(body); });
}

int main(int argc, char **argv)
{
	testing::InitGoogleTest(&argc, argv);
	auto &listeners = testing::UnitTest::GetInstance()->listeners();
	delete listeners.Release(listeners.default_result_printer());
	listeners.Append(new Printer);
	return RUN_ALL_TESTS();
}
