"""What the package needs from the machine it runs on: a cache directory, a Java, jars, a local Spark session."""
