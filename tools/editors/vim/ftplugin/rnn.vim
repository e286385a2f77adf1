setlocal comments=:///,:// commentstring=//\ %s
setlocal shiftwidth=2 expandtab textwidth=100
compiler rnnc
let b:undo_ftplugin = 'setlocal comments< commentstring< shiftwidth< expandtab< textwidth<'
    \ . ' makeprg< errorformat<'
