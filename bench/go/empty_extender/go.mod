module equipoise.dev/bench/emptyextender

go 1.26.0
