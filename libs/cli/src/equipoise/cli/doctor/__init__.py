"""`equipoise doctor`: checks of everything that Equipoise depends on."""
