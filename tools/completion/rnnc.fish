# Completes rnnc's command lines in fish; made by `rnnc completion fish`.

function __rnnc_complete
    set -l typed (commandline -opc) (commandline -ct)
    set -l lines ($typed[1] __complete $typed[2..-1] 2>/dev/null)
    string match -e -- \t $lines[2..-1]
    if string match -q -- 'files*' $lines[1]
        set -l before (string replace -- 'files ' '' $lines[1])
        set -l length (math (string length -- "$before") + 1)
        for file in (__fish_complete_path (string sub -s $length -- (commandline -ct)))
            echo $before$file
        end
    end
end

complete -c rnnc -f -a '(__rnnc_complete)'
