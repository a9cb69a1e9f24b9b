// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Tests whose names are sentences, reported as KTAP; GoogleTest does the rest.
#pragma once

#include <functional>
#include <gtest/gtest.h>
#include <string>

namespace ktap {

// Adds a test at run time, so that a table of cases can name each of them.
void add(const char *suite, const std::string &sentence, std::function<void()> body, const char *file,
	 int line);

struct Registrar {
	Registrar(const char *suite, const char *sentence, void (*body)(), const char *file, int line)
	{
		add(suite, sentence, body, file, line);
	}
	explicit Registrar(void (*many)()) { many(); }
};

} // namespace ktap

#define KTAP_CAT2(a, b) a##b
#define KTAP_CAT(a, b) KTAP_CAT2(a, b)

// KTEST(suite, "what must hold") { body }
#define KTEST(suite, sentence)                                                                               \
	static void KTAP_CAT(ktest_, __LINE__)();                                                            \
	static const ktap::Registrar KTAP_CAT(ktest_reg_, __LINE__){                                         \
	    #suite, sentence, KTAP_CAT(ktest_, __LINE__), __FILE__, __LINE__};                               \
	static void KTAP_CAT(ktest_, __LINE__)()

// KTESTS { calls ktap::add() in loops }
#define KTESTS                                                                                               \
	static void KTAP_CAT(ktests_, __LINE__)();                                                           \
	static const ktap::Registrar KTAP_CAT(ktests_reg_, __LINE__){KTAP_CAT(ktests_, __LINE__)};           \
	static void KTAP_CAT(ktests_, __LINE__)()
