# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Programs of many tests, to ctest.
include(GoogleTest)

# Each test for itself, as PREFIX.SUITE.NAME, for who works on one.  And all in one process, for who wants to know about
# all of them soon: with sanitizers, a process takes longer to start than most tests take.
#   ctest                             each for itself
#   ctest -C whole -LE single -V      all in one process
function(tally_discover_tests target prefix timeout)
	gtest_discover_tests(${target} TEST_PREFIX ${prefix}. DISCOVERY_TIMEOUT 60
		PROPERTIES TIMEOUT ${timeout} LABELS single)
	add_test(NAME ${prefix}.${target} COMMAND ${target} CONFIGURATIONS whole)
endfunction()
