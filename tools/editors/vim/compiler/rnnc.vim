" `:make` checks the file; errors and warnings go to the quickfix list.
let current_compiler = 'rnnc'
CompilerSet makeprg=rnnc\ check\ %:S
CompilerSet errorformat=%f:%l:%c:\ %trror:\ %m,%f:%l:%c:\ %tarning:\ %m,%-G%.%#
