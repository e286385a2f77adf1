#include "frontend/syntax/habits.h"

#include <algorithm>
#include <array>

namespace rnnc::habits {
namespace {

constexpr std::string_view kPower = "a power is `pow(a, b)`";
constexpr std::string_view kAnd = "for comparisons, `a * b` is \"and\"";
constexpr std::string_view kOr = "for comparisons, `max(a, b)` is \"or\"";
constexpr std::string_view kNot = "for comparisons, `1 - a` is \"not\"";
constexpr std::string_view kChoice = "one of two values is `where(condition, a, b)`";
constexpr std::string_view kQuotes = "numbers and names stand without quotes";
constexpr std::string_view kGradient =
    "a cell says values alone, and gradients follow from them; what shall have none is "
    "`stop_gradient(v)`";

// Longer ones first where one starts another.
constexpr auto kOperators = std::to_array<Operator>({
    {"...", "a range is `0..L`; all of a vector is `v` itself", ".."},
    {"..=", "a range is half-open: its end is not in it, `0..L`", ""},
    {"===", "", "=="},
    {"!==", "", "!="},
    {"**", kPower, ""},
    {"=>", "the arrow before the outputs is `->`, \"at least\" is `>=`", ""},
    {"=<", "", "<="},
    {"<>", "", "!="},
    {":=", "", "="},
    {".*", "", "*"},
    {"./", "", "/"},
    {".+", "", "+"},
    {".-", "", "-"},
    {".^", kPower, ""},
    {"^", kPower, ""},
    {"%", "the remainder is `mod(a, b)`", ""},
    {"&", kAnd, ""},
    {"|", kOr, ""},
    {"!", kNot, ""},
    {"~", kNot, ""},
    {"?", kChoice, ""},
    {"\\", "a line goes on inside brackets and after an operator", ""},
    {"`", kQuotes, ""},
    {"×", "", "*"},
    {"·", "elementwise product is `*`, matrix product is `@`", ""},
    {"⋅", "elementwise product is `*`, matrix product is `@`", ""},
    {"⊙", "", "*"},
    {"∘", "", "*"},
    {"∗", "", "*"},
    {"÷", "", "/"},
    {"∕", "", "/"},
    {"−", "", "-"},
    {"–", "", "-"},
    {"≤", "", "<="},
    {"≥", "", ">="},
    {"≠", "", "!="},
    {"→", "", "->"},
    {"⇒", "", "->"},
    {"←", "", "="},
    {"…", "", ".."},
    {"∧", kAnd, ""},
    {"∨", kOr, ""},
    {"¬", kNot, ""},
    {"²", kPower, ""},
    {"³", kPower, ""},
    {"√", "the square root is `sqrt(v)`", ""},
    {"∑", "the sum over a vector is `sum(v)`", ""},
    {"⊤", "the transposed matrix is `transpose(W)`", ""},
    {"⊗", "an outer product is made row by row: `S[i][t] = u[i] * v`, with `state S[H]: [H]`", ""},
    {"∂", kGradient, ""},
    {"∇", kGradient, ""},
    {"“", kQuotes, ""},
    {"”", kQuotes, ""},
    {"‘", kQuotes, ""},
    {"’", kQuotes, ""},
});

/// `names` are parted by commas.
struct Habit {
  std::string_view names;
  std::string_view hint;
};

template <size_t count>
std::string_view find(const std::array<Habit, count>& habits, std::string_view name) {
  for (const Habit& habit : habits) {
    for (std::string_view rest = habit.names; !rest.empty();) {
      const size_t comma = std::min(rest.find(','), rest.size());
      if (rest.substr(0, comma) == name) return habit.hint;
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return "";
}

constexpr auto kFunctions = std::to_array<Habit>({
    {"hadamard,elementwise_mul,mul,multiply,times", "elementwise product is `*`: `a * b`"},
    {"matmul,mm,mv,bmm,gemm,gemv,einsum", "the matrix product is `@`: `W @ x[t]`"},
    {"linear,Linear,affine,addmm,dense,fc", "a linear layer is `W @ x[t] + b`, of declared params"},
    {"add,plus,sub,subtract,minus,div,divide,neg,negative",
     "arithmetic has operators: `a + b`, `a - b`, `a / b`, `-a`"},
    {"power,square,sq,exp2", "a power is `pow(a, b)`: `pow(v, 2)`, `pow(2, v)`"},
    {"reciprocal,inv,inverse",
     "`1 / v` is the reciprocal of each element; matrices have no inverse"},
    {"reshape,view,flatten,squeeze,unsqueeze,expand,permute,swapaxes",
     "shapes are what declarations say; `v[:H]` is a part of a vector, `concat` joins vectors"},
    {"cat,concatenate,hstack,vstack,append,stack,join,cat1d,vcat,hcat",
     "vectors are joined by `concat(a, b)`"},
    {"split,chunk,tensor_split,narrow,unbind,slice,take,gather,select,index_select",
     "parts of a vector are slices: `v[:H]`, `v[H:2 * H]`; `v[2]` is an element"},
    {"σ,sigma,logistic,sigm,expit,sigmoid_", "the logistic function is `sigmoid(v)`"},
    {"tanh_,th", "the hyperbolic tangent is `tanh(v)`"},
    {"dropout,Dropout,zoneout,variational_dropout",
     "there is no dropout yet; a mask can be an input: `m[t] * v`"},
    {"detach,no_grad,grad,gradient,stopgrad,backward,requires_grad", kGradient},
    {"norm,l2norm,vector_norm",
     "the length of a vector is `sqrt(dot(v, v))`, and `normalize(v)` has length 1"},
    {"batchnorm,batch_norm,BatchNorm1d,BatchNorm",
     "a cell sees one sequence, no batch: `layernorm`"},
    {"len,size,shape,numel,length,ndims,dim",
     "sizes are the dims that a shape is declared with: `H` of `[H]`"},
    {"outer,outer_product,ger,kron,tensordot,outerproduct",
     "a step makes vectors; a matrix is an array of them: `state S[H]: [H]`, and in "
     "`for i in 0..H { … }` each row is given: `S[i][t] = S[i][t-1] + u[i] * v`"},
    {"maximum,fmax,amax,fmaximum", "it is `max(a, b)`; `max(v)` is a vector's greatest element"},
    {"minimum,fmin,amin", "it is `min(a, b)`; `min(v)` is a vector's least element"},
    {"argmax,argmin,topk,sort,argsort", "`v == max(v)` is 1 where the greatest element is"},
    {"cond,ifelse,if_else,switch,iff,select_if", kChoice},
    {"logical_and", kAnd},
    {"logical_or", kOr},
    {"logical_not,not", kNot},
    {"rand,randn,random,normal,uniform,bernoulli,gaussian,noise",
     "a step is the same at every run: random numbers come in as an input"},
    {"zeros_like,ones_like,full,full_like,fill,empty", "a scalar spreads over any shape: `0`, `1`"},
    {"tensor,array,Parameter,Variable,Tensor,nn_Parameter",
     "what is trained is declared: `param W: [H, I]`"},
    {"std,stddev", "the deviation is `sqrt(var(v))`"},
    {"tan", "the tangent is `sin(v) / cos(v)`"},
    {"sinh", "it is `(exp(v) - exp(-v)) / 2`"},
    {"cosh", "it is `(exp(v) + exp(-v)) / 2`"},
    {"log2,log10,lg", "a logarithm to another base is `log(v) / log(2)`"},
    {"ln", "the natural logarithm is `log(v)`"},
    {"ceil,ceiling", "it is `-floor(-v)`"},
    {"heaviside,threshold", "a comparison is 0 or 1: `v >= 0`"},
    {"diag,diagonal,diagflat", "`v * x` multiplies by a diagonal matrix; `eye(H)` is the identity"},
    {"prelu,PReLU", "it is `max(v, 0) + a * min(v, 0)`"},
    {"conv1d,conv,Conv1d", "a convolution over time reads steps back: `V @ x[t] + W @ x[t-1]`"},
    {"float,int,double,cast,to,astype,half,Float32,Float64,f32",
     "numbers have the type that a run chooses: `--dtype f32`"},
    {"sqrt_,rsqrt_,isqrt", "roots are `sqrt(v)` and `rsqrt(v)`"},
    {"print,assert,println,printf", "a step only computes; what one wants to see is an output"},
    {"enumerate,zip,xrange", "a loop is `for l in 0..L { … }`"},
    {"arange,linspace,iota", "the vector 0, 1, … N - 1 is `range(N)`"},
    {"cumsum,cumulative_sum,cumprod,cummax",
     "a loop puts it together: `s = 0`, `a = zeros(0)`, and in `for j in 0..H { … }`: "
     "`s = s + v[j]`, `a = concat(a, s)`"},
    {"roll,shift,circshift,rotate,flip", "parts change places by `concat(v[-1], v[:-1])`"},
    {"scan,fori_loop,while_loop,foldl,reduce,vmap",
     "a cell is one step of one sequence; what goes on from step to step is a `state`"},
});

constexpr auto kValues = std::to_array<Habit>({
    {"true,True,TRUE", "a comparison is 1 where it holds: write `1`"},
    {"false,False,FALSE", "a comparison is 0 where it does not hold: write `0`"},
    {"None,null,nil,nothing,NULL,undefined", "every value is a number: write `0`"},
    {"inf,Inf,infinity,Infinity", "write `1 / 0`, or `const inf = 1 / 0` outside the cell"},
    {"nan,NaN", "write `0 / 0`, or `const nan = 0 / 0` outside the cell"},
    {"pi,π", "write `const pi = 3.141592653589793` outside the cell"},
    {"self,this", "what a cell declares stands alone: `W`"},
    {"lambda", "a function stands outside the cell: `fn double(v) = 2 * v`"},
    {"return", "outputs are named in the header: `-> h`, or `-> (h, c)`"},
    {"not", kNot},
    {"range", "a loop is `for l in 0..L { … }`"},
    {"if", kChoice},
});

constexpr auto kItems = std::to_array<Habit>({
    {"def,func,function,fun,proc,sub,void,double,float,auto,lambda,let,var",
     "a function is `fn double(v) = 2 * v`, a cell `cell NAME[I, H](x: [I]) -> h { … }`"},
    {"class,struct,type,object,module,layer,model,rnn,RNN,net",
     "a cell is `cell NAME[I, H](x: [I]) -> h { … }`"},
    {"from,using,include,require,use,open,load", "another file is read by `import \"file.rnn\"`"},
    {"state,param,for", "it stands inside a cell: `cell NAME[I, H](x: [I]) -> h { … }`"},
});

constexpr auto kWords = std::to_array<Habit>({
    {"and", kAnd},
    {"or", kOr},
    {"not", kNot},
    {"if,else,elif,elseif,then,unless,match,switch,case", kChoice},
    {"return,yield", "outputs are named in the header: `-> h`, or `-> (h, c)`"},
    {"while,do,loop,repeat,foreach", "a loop has known bounds: `for l in 0..L { … }`"},
    {"let,var,val,auto,local,mut,float,double,int,Tensor,tensor,set",
     "a value is given without a word in front of its name: `a = …`"},
    {"lambda", "a function stands outside the cell: `fn double(v) = 2 * v`"},
    {"def,func,function,class,cell,network",
     "a function stands outside the cell: `fn double(v) = 2 * v`"},
    {"print,assert,pass,println,printf,del,raise",
     "a step only computes; what one wants to see is an output"},
    {"input,inputs", "inputs stand in the header: `cell NAME[I, H](x: [I]) -> h { … }`"},
    {"output,outputs", "outputs are named in the header: `-> h`, or `-> (h, c)`"},
    {"weight,weights,parameter,parameters,bias,learnable,buffer,const",
     "what is trained is declared: `param W: [H, I]`"},
    {"hidden,carry,memory,register,states", "what is carried is declared: `state h: [H]`"},
    {"init,initial,from", "an initial value follows the shape: `state h: [H] = 0`"},
    {"is,equals,eq", "a comparison is written `==`"},
    {"end,begin", "a body stands in braces: `{ … }`"},
    {"by,step", "a range goes in steps of one: `0..L`"},
});

constexpr std::string_view kModules =
    ",torch,np,numpy,F,nn,math,Math,jnp,jax,tf,keras,K,lax,functional,ops,self,this,std,xp,mx,"
    "linalg,";

}  // namespace

const Operator* find_operator(std::string_view text) {
  // Asked at each sign of a text: most differ in their first byte.
  const auto* found = std::ranges::find_if(kOperators, [text](const Operator& habit) {
    return !text.empty() && text.front() == habit.written.front() &&
           text.starts_with(habit.written);
  });
  return found == kOperators.end() ? nullptr : found;
}

std::string_view of_function(std::string_view name) {
  return find(kFunctions, name);
}

std::string_view of_member(std::string_view name) {
  if (name == "dot") return "the matrix product is `W @ v`; of two vectors it is `dot(u, v)`";
  return of_function(name);
}

std::string_view of_value(std::string_view name) {
  if (name.ends_with("ᵀ")) return "the transposed matrix is `transpose(W)`";
  return find(kValues, name);
}

std::string_view of_item(std::string_view word) {
  return find(kItems, word);
}

std::string_view of_word(std::string_view word) {
  return find(kWords, word);
}

bool is_module(std::string_view name) {
  const size_t at = kModules.find(name);
  return !name.empty() && at != std::string_view::npos && at > 0 && kModules[at - 1] == ',' &&
         kModules[at + name.size()] == ',';
}

}  // namespace rnnc::habits
