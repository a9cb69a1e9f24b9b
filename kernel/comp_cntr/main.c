// SPDX-License-Identifier: GPL-2.0-only
/* Completion counters for ib_core, for kernels that do not have them: see Documentation/rdma/ib_comp_cntr.rst. */
#include <linux/module.h>
#include "core.h"

const struct uapi_definition ib_comp_cntr_uapi_defs[] = {
	UAPI_DEF_CHAIN(comp_cntr_object_defs),
	UAPI_DEF_CHAIN(comp_cntr_wait_defs),
	UAPI_DEF_CHAIN(comp_cntr_attach_defs),
	{},
};
EXPORT_SYMBOL_GPL(ib_comp_cntr_uapi_defs);

static int __init comp_cntr_init(void)
{
	BUILD_BUG_ON(UVERBS_OBJECT_COMP_CNTR >= UVERBS_API_OBJ_KEY_NUM_CORE);
	BUILD_BUG_ON(sizeof(struct ib_uverbs_buffer_desc) != 32);
	BUILD_BUG_ON(sizeof(struct tally_comp_cntr_target) != 16);

	return comp_cntr_ops_init();
}
module_init(comp_cntr_init);

static void __exit comp_cntr_exit(void)
{
	comp_cntr_ops_exit();
}
module_exit(comp_cntr_exit);

MODULE_DESCRIPTION("Completion counters for RDMA devices");
MODULE_LICENSE("GPL");
