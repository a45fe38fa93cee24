# complete.bash WORD...: prints the completions of a command line whose last word is unfinished.
source /usr/share/bash-completion/bash_completion
source <("$1" completion bash) || exit
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE=$* COMP_TYPE=9
COMP_POINT=${#COMP_LINE}
function=$(complete -p "$1") && function=${function#*-F } && "${function%% *}"
printf '%s\n' "${COMPREPLY[@]}"
