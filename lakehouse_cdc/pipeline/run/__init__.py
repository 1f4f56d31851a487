"""Running queries: started, restarted, ended together, one process at a time, their failures as errors of ours."""
