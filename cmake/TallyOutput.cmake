# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Where results land: build/bin and build/lib for the ordinary build, which is what the VM puts on PATH; inside
# its own build folder for a sanitizer build, so that both can exist side by side.

if(TALLY_SANITIZE)
	set(TALLY_OUTPUT_DIR ${CMAKE_BINARY_DIR})
else()
	set(TALLY_OUTPUT_DIR ${PROJECT_SOURCE_DIR}/build CACHE PATH "Folder of bin/ and lib/")
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${TALLY_OUTPUT_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${TALLY_OUTPUT_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${TALLY_OUTPUT_DIR}/lib)
