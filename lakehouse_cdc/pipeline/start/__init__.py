"""Before the first batch: whether checkpoint, tables and configuration belong together (`settling`), what a changed
configuration does to the source's tables (`configuration_changes`) and to silver's (`silver_settings`); `reset`, and
`redact`.
"""
