"""What runtimes can do: a table each. Passes and rules ask it and know no runtime themselves."""
