"""The same work done with other libraries, each in an environment of its own: nothing here is a dependency."""
