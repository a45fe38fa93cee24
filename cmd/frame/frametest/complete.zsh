# complete.zsh WORD...: prints the completions of a command line whose last word is unfinished. The
# functions that only work in the line editor are replaced: _describe fails if there is nothing to
# describe, and then _arguments is called for names of files.
compdef() { function=$1 }
_describe() { (( $#completions )) && print -rl -- $completions }
_arguments() { print -r -- files: "$@" }
source =($1 completion zsh) || exit
words=("$@") CURRENT=$#
$function
