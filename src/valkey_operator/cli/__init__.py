"""`kubectl valkey`: one file per command. It acts only through custom resources, with the user's own rights."""
