SETUP_UNDECIDABLE
error: SETUP_TABLE sales.customers: the writers of sales.customers need different audit columns: other (SCD1_MERGE), other (APPEND_TABLE)
hint: write one target with one kind of action, or keep a target for each
