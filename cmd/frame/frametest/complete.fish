# complete.fish WORD...: prints the completions of a command line whose last word is unfinished.
$argv[1] completion fish | source
complete -C "$argv"
