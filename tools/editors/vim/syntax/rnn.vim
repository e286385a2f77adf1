" Vim syntax file. Its words are those of the lexer and the built-in functions: a test compares them.
if exists('b:current_syntax')
  finish
endif

syntax keyword rnnDefinition cell network fn const import
syntax keyword rnnDeclaration state param blocks
syntax keyword rnnControl for in reverse as
syntax keyword rnnTime t
" Where they are called: other names may be spelled alike.
syntax match rnnFunction /\v<(sigmoid|tanh|relu|exp|log|log1p|expm1|sqrt|rsqrt|abs|sign|floor|round|one_hot|step|stop_gradient|softplus|silu|gelu|elu|erf|sin|cos|pow|mod|where|clamp|min|max|sum|mean|var|dot|concat|transpose|eye|range|zeros|ones)>\ze *\(/
syntax match rnnOperator /[-+*\/@<>=]\|!=\|\.\./
syntax match rnnNumber /\<\d\+\(\.\d\+\)\?\([eE][+-]\?\d\+\)\?\>/
syntax region rnnString start=/"/ end=/"/ oneline
" Later ones win where several match: a comment is no division.
syntax match rnnComment /\/\/.*$/ contains=@Spell
syntax match rnnDocumentation /\/\/\/.*$/ contains=@Spell

highlight default link rnnDefinition Keyword
highlight default link rnnDeclaration Type
highlight default link rnnControl Statement
highlight default link rnnTime Special
highlight default link rnnFunction Function
highlight default link rnnOperator Operator
highlight default link rnnNumber Number
highlight default link rnnString String
highlight default link rnnComment Comment
highlight default link rnnDocumentation SpecialComment

let b:current_syntax = 'rnn'
