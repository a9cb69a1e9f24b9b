# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Language levels, warnings and sanitizers of every target.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
	set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Kind of build" FORCE)
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_compile_options(-Wall -Wextra -Werror)

if(TALLY_SANITIZE)
	# -O0 comes after the build type's own level.  The checks of a container's every function, optimized, take three times
	# as long to compile as all the rest; what the tests wait for has a level of its own.
	add_compile_options(-O0 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
	add_link_options(-fsanitize=address,undefined)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
	# Without these words it caches nothing that uses a precompiled header.
	set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
	set(CMAKE_CXX_COMPILER_LAUNCHER
		${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
		${CCACHE_PROGRAM})
endif()

# Tests, and main(), are compiled more often than their speed matters: half the time of -O2 -g.  For the sources of
# one target, not for what it links; the sanitizers watch what is tested, not the test.  Headers that most of its
# sources begin with, if they are named, are compiled once, which is half of the rest.
function(tally_compile_quickly target)
	if(TALLY_SANITIZE)
		target_compile_options(${target} PRIVATE -fno-sanitize=all)
	else()
		target_compile_options(${target} PRIVATE -O1 -g1)
	endif()
	foreach(header ${ARGN})
		target_precompile_headers(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${header}>)
	endforeach()
endfunction()
