autocmd BufNewFile,BufRead *.rnn setfiletype rnn
