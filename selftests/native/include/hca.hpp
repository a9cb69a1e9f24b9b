// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// kernel/hca for C++: the same header, minus the kernel's names that mean something else here.
#pragma once

#include <hca_port_user.h>

extern "C" {
#define class class_ // fields and parameters of that name
#include <hca/hca.h>
#undef class
}

#undef likely
#undef unlikely
#undef noinline
#undef __aligned
#undef __packed
#undef __cold
#undef __uninitialized
#undef __user
#undef __force
#undef BIT
#undef ALIGN
