"""Configurations of other deschedulers as a configuration of Equipoise."""
