"""Rows to VARIANT images: from row images of the binlog (`decode`, `walk`) and from result sets (`result_set`)."""
