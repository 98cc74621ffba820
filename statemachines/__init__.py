"""Pure decisions: legal transitions, the context, plan and apply, elections, request batches."""
