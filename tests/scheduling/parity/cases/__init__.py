"""Cases written by hand, by somebody who knows where the source of kube-scheduler is unusual."""
