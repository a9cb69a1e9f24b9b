# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Files for pkg-config that are true wherever they are installed: a build may be installed under several prefixes, and
# under another one than it was configured for.

function(tally_configure_pc file)
	if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
		set(pc_prefix ${CMAKE_INSTALL_PREFIX})
	else()
		file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
		string(REGEX REPLACE "/$" "" up "${up}")
		set(pc_prefix "\${pcfiledir}/${up}")
	endif()
	foreach(dir LIBDIR INCLUDEDIR)
		string(TOLOWER pc_${dir} variable)
		set(${variable} "\${prefix}/${CMAKE_INSTALL_${dir}}")
		if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
			set(${variable} "${CMAKE_INSTALL_${dir}}")
		endif()
	endforeach()
	configure_file(${file}.in ${file} @ONLY)
endfunction()
