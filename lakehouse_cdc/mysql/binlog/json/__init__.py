"""Binary JSON in row images, and partial updates of it, made whole before rows are decoded."""
