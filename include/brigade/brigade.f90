! brigade.f90: the functions with which a Fortran program trains a network in place: graphs of linear layers, options by
! name, plans, sessions, weights, and MPI as the transport. Compile it with the program and link libbrigade and
! libbrigade_mpi_<mpi>.
!
! Names, arguments and errors are those of the C headers, which document them. Objects are type(c_ptr), and strings are
! C strings from `bg_text`. Dimensions are those of C, where the last one is the innermost; a Fortran array has them in
! reverse order. Other functions of the headers can be declared in the same way.
module brigade
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: bg_error, bg_value, bg_type, bg_optimizer, bg_weight, bg_text, bg_message
  public :: bg_matrix, bg_optimizer_parse
  public :: bg_graph_create, bg_graph_destroy, bg_graph_input, bg_graph_output
  public :: bg_linear_layer, bg_tanh, bg_mse_loss
  public :: bg_run_options_create, bg_run_options_destroy, bg_run_options_use
  public :: bg_run_options_set_integer, bg_run_options_set_text, bg_run_options_set_transport
  public :: bg_plan_create_training, bg_plan_destroy
  public :: bg_session_create, bg_session_destroy, bg_session_run, bg_session_weights, bg_weights_find
  public :: bg_transport_mpi_create_fortran, bg_transport_mpi_destroy

  integer(c_int), parameter, public :: BG_OK = 0, BG_FLOAT32 = 1, BG_LOSS_MEAN = 0

  type, bind(c) :: bg_error
    integer(c_int) :: status
    character(kind=c_char) :: message(4096)
  end type

  type, bind(c) :: bg_value
    integer(c_int32_t) :: id
  end type

  type, bind(c) :: bg_type
    integer(c_int) :: dtype
    integer(c_int32_t) :: rank
    integer(c_int64_t) :: dims(6)
  end type

  type, bind(c) :: bg_optimizer ! set by bg_optimizer_parse
    integer(c_int) :: kind
    real(c_double) :: learning_rate, weight_decay, momentum, dampening
    logical(c_bool) :: nesterov, combined
    real(c_double) :: velocity_scaling, beta1, beta2, alpha, epsilon, max_weight_norm
    logical(c_bool) :: uncorrected, centered, tf_variant, decay_matrices_only
  end type

  type, bind(c) :: bg_weight
    type(c_ptr) :: name
    type(bg_type) :: type
    integer(c_int) :: role
    type(c_ptr) :: data
  end type

  interface
    function bg_matrix(dtype, d0, d1) bind(c)
      import
      integer(c_int), value :: dtype
      integer(c_int64_t), value :: d0, d1
      type(bg_type) :: bg_matrix
    end function

    function bg_optimizer_parse(text, learning_rate, optimizer, error) bind(c) result(status)
      import
      character(kind=c_char), intent(in) :: text(*)
      real(c_double), value :: learning_rate
      type(bg_optimizer), intent(inout) :: optimizer
      type(bg_error), intent(inout) :: error
      integer(c_int) :: status
    end function

    function bg_graph_create(graph, error) bind(c) result(status)
      import
      type(c_ptr), intent(inout) :: graph
      type(bg_error), intent(inout) :: error
      integer(c_int) :: status
    end function

    subroutine bg_graph_destroy(graph) bind(c)
      import
      type(c_ptr), value :: graph
    end subroutine

    function bg_graph_input(graph, name, type) bind(c) result(value)
      import
      type(c_ptr), value :: graph
      character(kind=c_char), intent(in) :: name(*)
      type(bg_type), intent(in) :: type
      type(bg_value) :: value
    end function

    subroutine bg_graph_output(graph, name, value) bind(c)
      import
      type(c_ptr), value :: graph
      character(kind=c_char), intent(in) :: name(*)
      type(bg_value), value :: value
    end subroutine

    function bg_linear_layer(graph, name, x, out_features, bias) bind(c) result(value)
      import
      type(c_ptr), value :: graph
      character(kind=c_char), intent(in) :: name(*)
      type(bg_value), value :: x
      integer(c_int64_t), value :: out_features
      logical(c_bool), value :: bias
      type(bg_value) :: value
    end function

    function bg_tanh(graph, x) bind(c) result(value)
      import
      type(c_ptr), value :: graph
      type(bg_value), value :: x
      type(bg_value) :: value
    end function

    function bg_mse_loss(graph, name, prediction, target, reduction) bind(c) result(value)
      import
      type(c_ptr), value :: graph
      character(kind=c_char), intent(in) :: name(*)
      type(bg_value), value :: prediction, target
      integer(c_int), value :: reduction
      type(bg_value) :: value
    end function

    function bg_run_options_create(from, options, error) bind(c) result(status)
      import
      type(c_ptr), value :: from ! c_null_ptr: the defaults
      type(c_ptr), intent(inout) :: options
      type(bg_error), intent(inout) :: error
      integer(c_int) :: status
    end function

    subroutine bg_run_options_destroy(options) bind(c)
      import
      type(c_ptr), value :: options
    end subroutine

    function bg_run_options_use(options) bind(c) result(plain)
      import
      type(c_ptr), value :: options
      type(c_ptr) :: plain ! const bg_options *
    end function

    function bg_run_options_set_integer(options, name, value, error) bind(c) result(status)
      import
      type(c_ptr), value :: options
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: value
      type(bg_error), intent(inout) :: error
      integer(c_int) :: status
    end function

    function bg_run_options_set_text(options, name, text, error) bind(c) result(status)
      import
      type(c_ptr), value :: options
      character(kind=c_char), intent(in) :: name(*), text(*)
      type(bg_error), intent(inout) :: error
      integer(c_int) :: status
    end function

    function bg_run_options_set_transport(options, transport, error) bind(c) result(status)
      import
      type(c_ptr), value :: options, transport
      type(bg_error), intent(inout) :: error
      integer(c_int) :: status
    end function

    function bg_plan_create_training(graph, loss, optimizer, options, plan, error) bind(c) result(status)
      import
      type(c_ptr), value :: graph, options
      type(bg_value), value :: loss
      type(bg_optimizer), intent(in) :: optimizer
      type(c_ptr), intent(inout) :: plan
      type(bg_error), intent(inout) :: error
      integer(c_int) :: status
    end function

    subroutine bg_plan_destroy(plan) bind(c)
      import
      type(c_ptr), value :: plan
    end subroutine

    function bg_session_create(plan, weights, session, error) bind(c) result(status)
      import
      type(c_ptr), value :: plan, weights ! weights c_null_ptr: the session makes them
      type(c_ptr), intent(inout) :: session
      type(bg_error), intent(inout) :: error
      integer(c_int) :: status
    end function

    subroutine bg_session_destroy(session) bind(c)
      import
      type(c_ptr), value :: session
    end subroutine

    function bg_session_run(session, inputs, outputs, error) bind(c) result(status)
      import
      type(c_ptr), value :: session
      type(c_ptr), intent(in) :: inputs(*), outputs(*) ! c_loc of contiguous arrays that have the target attribute
      type(bg_error), intent(inout) :: error
      integer(c_int) :: status
    end function

    function bg_session_weights(session) bind(c) result(weights)
      import
      type(c_ptr), value :: session
      type(c_ptr) :: weights
    end function

    function bg_weights_find(weights, name, weight, error) bind(c) result(status)
      import
      type(c_ptr), value :: weights
      character(kind=c_char), intent(in) :: name(*)
      type(bg_weight), intent(inout) :: weight
      type(bg_error), intent(inout) :: error
      integer(c_int) :: status
    end function

    function bg_transport_mpi_create_fortran(comm, transport, error) bind(c) result(status)
      import
      integer(c_int), value :: comm ! of `use mpi`; comm%MPI_VAL of `use mpi_f08`
      type(c_ptr), intent(inout) :: transport
      type(bg_error), intent(inout) :: error
      integer(c_int) :: status
    end function

    subroutine bg_transport_mpi_destroy(transport) bind(c)
      import
      type(c_ptr), value :: transport
    end subroutine
  end interface

contains

  ! Makes a C string.
  pure function bg_text(text)
    character(*), intent(in) :: text
    character(len(text) + 1, kind=c_char) :: bg_text
    bg_text = text // c_null_char
  end function

  ! Returns the message of an error as a Fortran string.
  pure function bg_message(error)
    type(bg_error), intent(in) :: error
    character(:), allocatable :: bg_message
    integer :: i
    bg_message = ''
    do i = 1, size(error%message)
      if (error%message(i) == c_null_char) exit
      bg_message = bg_message // error%message(i)
    end do
  end function
end module
