// SPDX-License-Identifier: GPL-2.0-only
/* Tally: an RDMA adapter made of software.  See Documentation/rdma/tally.rst. */
#include <linux/module.h>
#include "tally.h"

static int __init tally_init(void)
{
	return tally_link_init();
}
module_init(tally_init);

static void __exit tally_exit(void)
{
	tally_link_exit();
	tally_uars_exit();
}
module_exit(tally_exit);

MODULE_DESCRIPTION("RDMA adapter in software");
MODULE_VERSION(TALLY_VERSION);
MODULE_LICENSE("GPL");
