SETUP_UNDECIDABLE
error: SETUP_TABLE sales.customers: no task of the pipeline writes sales.customers
hint: set SETUP_FOR to the action that writes it
